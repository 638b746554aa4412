package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"cqld/ring/load"
)

// load collects the load of this node's ranges, and how it compares with the other nodes. The ranges have no series of
// their own, because they are many; `cqld ctl ranges` shows them. Each node shows the imbalance as it knows it, from
// reports that are a few seconds old.
func (c *Collector) load(m sink) {
	l := c.o.Instance.Loads
	s := l.Meter.Snapshot()
	m.counter("ring_range_reads", "Reads of this node's ranges as a replica.", int64(s.Totals.Reads))
	m.counter("ring_range_writes", "Mutations of this node's ranges as a replica.", int64(s.Totals.Writes))
	m.counter("ring_range_read_bytes", "Bytes of the pages that this node has read as a replica.",
		int64(s.Totals.BytesOut))
	m.counter("ring_range_written_bytes", "Bytes of the mutations that this node has received as a replica.",
		int64(s.Totals.BytesIn))
	m.counter("ring_range_charge", "Charge of the requests for this node's ranges: 1 is a point read of 1 KiB.",
		int64(load.Charge(float64(s.Totals.Reads), float64(s.Totals.Writes), float64(s.Totals.BytesOut),
			float64(s.Totals.BytesIn))))
	m.gauge("ring_ranges", "Token ranges that this node holds.", int64(len(s.Ranges)))
	m.gauge("ring_range_stored_bytes", "Estimated bytes on disk of the tables in these ranges.", s.Sum.Bytes)
	m.counter("ring_range_samples_dropped", "Samples of partition keys that were dropped because another one was "+
		"being counted.", s.Dropped)
	m.counter("ring_load_reports_refused", "Reports of the load of other nodes that could not be used.",
		l.Reports.Refused())
	ratio := func(name, help string, value float64) { m.send(prometheus.GaugeValue, name, help, value, nil, nil) }
	// The busiest range decides whether a node can be relieved by moving ranges.
	hottest := 0.0
	for i := range s.Ranges {
		hottest = max(hottest, s.Ranges[i].Fast.Charge())
	}
	share := 0.0
	if all := s.Sum.Fast.Charge(); all > 0 {
		share = hottest / all
	}
	ratio("ring_range_hottest_ratio", "Part of this node's charge that its busiest range has.", share)
	all := load.CombineNodes(l.Reports.All(c.o.Instance.Cluster.Self()))
	charge, bytes := all.Imbalance()
	m.gauge("ring_load_nodes", "Nodes whose load this node knows, with itself.", int64(len(all.Nodes)))
	ratio("ring_load_imbalance_ratio",
		"How far the charge of the busiest node is above the mean of all nodes: 0 is even.", charge)
	ratio("ring_stored_imbalance_ratio",
		"How far the bytes of the fullest node are above the mean of all nodes: 0 is even.", bytes)
}
