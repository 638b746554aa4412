package scenario

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
)

// count updates counters: "k1 a=1 b=-2 static=5" adds to those of the rows a and b and to the static one. "delete=a"
// deletes a row at the timestamp ts.
func (s *script) count(d *datadriven.TestData) {
	// The first word is the key. All rows of the command are in its partition.
	m := &row.Mutation{}
	m.Reset(s.c.Counters.StorageID, row.NewPartitionKey([]byte(words(d)[0])))
	cell := func(column, value string) row.Cell {
		// An addition is a cell with the delta as its value, and without a timestamp: the leader replaces it by a
		// shard.
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		return row.Cell{Column: s.c.Counters.Column(column).ID, Value: wire.AppendInt64(nil, n)}
	}
	// Arguments of other forms, such as at= and cl=, are for the request.
	for _, a := range d.CmdArgs {
		r := row.NewRow()
		switch {
		case a.Key == "static":
			r.Cells = append(r.Cells, cell("s", a.Vals[0]))
			m.AddHeader(r)
		case a.Key == "delete":
			r.Deletion = row.Deletion{Timestamp: int64(number(d, "ts", 1)), LocalTime: s.c.Clock.Now().Unix()}
			r.Clustering = []byte(a.Vals[0])
			m.AddRow(r)
		case len(a.Key) == 1 && len(a.Vals) == 1:
			r.Clustering = []byte(a.Key)
			r.Cells = append(r.Cells, cell("v", a.Vals[0]))
			m.AddRow(r)
		}
	}
	done := s.begin("count")
	s.c.Node(ring.NodeID(number(d, "at", 1))).Counters.Update(&coordinator.WriteRequest{
		Mutations: []*row.Mutation{m}, Consistency: level(d), Type: coordinator.WriteCounter,
		Timeout: duration(d, "timeout", "5s"),
	}, func(err error) { done(FormatError(err)) })
}

// counters prints the shards of a partition on every node, and their sums. For example 2: a=3(n1:1 n2:2), where n1 is
// the shard of node 1. A deleted counter has no shards, and shows as 0.
func (s *script) counters(d *datadriven.TestData) {
	for _, n := range s.c.Nodes {
		cmd := s.command(d)
		cmd.Table = s.c.Counters.StorageID
		page, err := n.Engine.Read(nil, cmd)
		if err != nil {
			s.t.Fatal(err)
		}
		var p row.PageReader
		p.Reset(page)
		var parts []string
		for p.NextPartition() {
			// The counter in the static row.
			if len(p.Header.Cells) > 0 {
				parts = append(parts, "static"+shards(&p.Header))
			}
			var r row.Row
			for p.NextRow(&r) {
				parts = append(parts, string(r.Clustering)+shards(&r))
			}
		}
		s.c.printf("%d: %s", n.ID, strings.Join(parts, " "))
	}
}

// shards formats the shards of the counters of a row. Deleted shards are left out.
func shards(r *row.Row) string {
	sum, out := int64(0), ""
	for _, c := range r.Cells {
		if c.Tombstone {
			continue
		}
		// The path of a cell is the node that owns the shard.
		v := int64(binary.BigEndian.Uint64(c.Value))
		sum += v
		out += fmt.Sprintf(" n%d:%d", binary.BigEndian.Uint64(c.Path), v)
	}
	return fmt.Sprintf("=%d(%s)", sum, strings.TrimSpace(out))
}
