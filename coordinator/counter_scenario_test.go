package coordinator_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
)

// count adds to counters: of a line "k1 a=1 b=-2 static=5", to those of rows a and b, and the static
// one; "delete=a" deletes a row, at ts.
func (s *scenario) count(d *datadriven.TestData) {
	m := &row.Mutation{}
	m.Reset(s.c.counts.StorageID, row.NewPartitionKey([]byte(words(d)[0])))
	cell := func(column, value string) row.Cell {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		return row.Cell{Column: s.c.counts.Column(column).ID, Value: wire.AppendInt64(nil, n)}
	}
	for _, a := range d.CmdArgs {
		r := row.NewRow()
		switch {
		case a.Key == "static":
			r.Cells = append(r.Cells, cell("s", a.Vals[0]))
			m.AddHeader(r)
		case a.Key == "delete":
			r.Deletion = row.Deletion{Timestamp: int64(number(d, "ts", 1)), LocalTime: s.c.clock.Now().Unix()}
			r.Clustering = []byte(a.Vals[0])
			m.AddRow(r)
		case len(a.Key) == 1 && len(a.Vals) == 1:
			r.Clustering = []byte(a.Key)
			r.Cells = append(r.Cells, cell("v", a.Vals[0]))
			m.AddRow(r)
		}
	}
	done := s.begin("count")
	s.c.node(ring.NodeID(number(d, "at", 1))).parts.counters.Update(&coordinator.WriteRequest{
		Mutations: []*row.Mutation{m}, Consistency: s.level(d), Type: coordinator.WriteCounter, Timeout: duration(d, "timeout", "5s"),
	}, func(err error) { done(errorText(err)) })
}

// counters shows the shards that every node has of a partition, and their sums.
func (s *scenario) counters(d *datadriven.TestData) {
	for _, n := range s.c.nodes {
		cmd := s.command(d)
		cmd.Table = s.c.counts.StorageID
		page, err := n.engine.Read(nil, cmd)
		if err != nil {
			s.t.Fatal(err)
		}
		var p row.PageReader
		p.Reset(page)
		var parts []string
		for p.NextPartition() {
			if len(p.Header.Cells) > 0 {
				parts = append(parts, "static"+shards(&p.Header))
			}
			var r row.Row
			for p.NextRow(&r) {
				parts = append(parts, string(r.Clustering)+shards(&r))
			}
		}
		s.c.printf("%d: %s", n.id, strings.Join(parts, " "))
	}
}

func shards(r *row.Row) string {
	sum, out := int64(0), ""
	for _, c := range r.Cells {
		if c.Tombstone {
			continue
		}
		v := int64(binary.BigEndian.Uint64(c.Value))
		sum += v
		out += fmt.Sprintf(" n%d:%d", binary.BigEndian.Uint64(c.Path), v)
	}
	return fmt.Sprintf("=%d(%s)", sum, strings.TrimSpace(out))
}

// logged writes lines "k1 a x" as a logged batch.
func (s *scenario) logged(d *datadriven.TestData) {
	done := s.begin("batch")
	s.c.node(ring.NodeID(number(d, "at", 1))).batches.Write(&coordinator.WriteRequest{
		Mutations: s.lines(d), Consistency: s.level(d), Type: coordinator.WriteBatch, Timeout: duration(d, "timeout", "2s"),
		Ordered: s.c.table.Options.WriteOrdering != "", Stamp: int64(number(d, "ts", 1)),
	}, func(err error) { done(errorText(err)) })
}

// twice makes messages under way on the links come a second time.
func (s *scenario) twice(d *datadriven.TestData) {
	links := parseLinks(d)
	for _, l := range slices.Clone(s.c.flight) {
		if links[l.link] {
			s.c.flight = append(s.c.flight, l)
		}
	}
}

// restart ends the process of nodes and starts new ones, as after a crash.
func (s *scenario) restart(d *datadriven.TestData) {
	for _, id := range nodes(d) {
		s.c.clock.now += time.Microsecond
		s.c.node(id).start()
	}
}

// batches shows how many batches nodes hold.
func (s *scenario) batches(*datadriven.TestData) {
	for _, n := range s.c.nodes {
		if k := n.batches.Held(); k > 0 {
			s.c.printf("%d holds %d", n.id, k)
		}
	}
}

// handover makes nodes that leave give away the batches that they keep.
func (s *scenario) handover(d *datadriven.TestData) {
	for _, id := range nodes(d) {
		s.c.node(id).handOver(func(err error) { s.c.printf("%d has handed over: %s", id, errorText(err)) })
	}
}
