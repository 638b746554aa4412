package system

import "cqld/ring"

// RangeLoad is the load of a physical partition, in system_views.ranges: a token range with its replicas. Rates are per
// second, summed over the nodes; ChargeSlow is an average over about 2 min, the other rates over about 10 s.
type RangeLoad struct {
	Tokens             ring.Range
	Nodes              []string // the addresses of the nodes that report it
	Bytes              int64    // of the largest replica
	Reads, Writes      float64
	Charge, ChargeSlow float64
	Share              float64 // of the charge of all nodes
	// The key with the most charge of the range. HotTable is empty if no key stands out, and HotKey if this node does
	// not know the key.
	HotKeyspace, HotTable, HotKey string
	HotToken                      ring.Token
	HotShare                      float64
}

// rangeRows adds a row for each range that a node reports.
func (s *Source) rangeRows(b *builder) {
	if s.o.Ranges == nil {
		return
	}
	for _, r := range s.o.Ranges() {
		row := values{"range_end": bigint(int64(r.Tokens.End)), "range_start": bigint(int64(r.Tokens.Start)),
			"nodes": texts(r.Nodes), "size_on_disk": bigint(r.Bytes), "reads_per_second": double(r.Reads),
			"writes_per_second": double(r.Writes), "charge_per_second": double(r.Charge),
			"charge_per_second_2m": double(r.ChargeSlow), "charge_share": double(r.Share)}
		if r.HotTable != "" {
			row["hottest_keyspace"], row["hottest_table"] = text(r.HotKeyspace), text(r.HotTable)
			row["hottest_key"] = textOrNull(r.HotKey)
			row["hottest_token"], row["hottest_share"] = bigint(int64(r.HotToken)), double(r.HotShare)
		}
		b.add(row)
	}
}
