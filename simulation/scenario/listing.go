package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"

	"cqld/listing"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// tableOf returns the table that table= names, by default o.
func (s *script) tableOf(d *datadriven.TestData) *schema.Table {
	return s.c.Schema.Table("ks", text(d, "table", "o"))
}

// have stores partitions of table o on the nodes that node= names: "have a b node=(1,2)". With static, they have only a
// static row. The command gone deletes them there. It changes storage directly, without a coordinator, so replicas may
// differ. For example, "have a b node=(1,2)" and "gone b node=(2)" make a partition that is live on one replica only.
func (s *script) have(d *datadriven.TestData) {
	table := s.tableOf(d)
	ts := int64(number(d, "ts", 1))
	for _, id := range list(d, "node") {
		n, err := strconv.Atoi(id)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, key := range words(d) {
			if key == "static" {
				continue
			}
			m := &row.Mutation{}
			m.Reset(table.StorageID, row.NewPartitionKey([]byte(key)))
			r := row.NewRow()
			switch {
			// The deletion of the partition, not of its row.
			case d.Cmd == "gone":
				r.Deletion = row.Deletion{Timestamp: ts, LocalTime: s.c.Clock.Now().Unix()}
				m.AddHeader(r)
			case d.HasArg("static"):
				r.Cells = append(r.Cells, row.Cell{Column: table.Column("s").ID, Timestamp: ts, Value: []byte("s")})
				m.AddHeader(r)
			default:
				r.Clustering, r.Liveness.Timestamp = []byte("row"), ts
				m.AddRow(r)
			}
			check := func(err error) {
				if err != nil {
					s.t.Fatal(err)
				}
			}
			// The inline engine calls check before Apply returns, so the partition exists for the next command.
			check(s.c.Node(ring.NodeID(n)).Engine.Apply([]*row.Mutation{m}, true, check))
		}
	}
}

// list lists partition keys: "list from=a to=x limit=3 reversed cl=ONE at=2 table=t". For example "a b … (4 looked
// at)": the ellipsis means that more keys follow.
func (s *script) list(d *datadriven.TestData) {
	done := s.begin("list")
	// Without limit=, the listing returns all keys.
	req := &listing.Request{
		Table: s.tableOf(d), Limit: number(d, "limit", 0), Reversed: d.HasArg("reversed"), Consistency: level(d),
		Timeout: duration(d, "timeout", "5s"), Now: s.c.Clock.Now().Unix(),
	}
	if d.HasArg("from") {
		req.Span.From = []byte(text(d, "from", ""))
	}
	if d.HasArg("to") {
		req.Span.To = []byte(text(d, "to", ""))
	}
	s.c.Node(ring.NodeID(number(d, "at", 1))).Lister.List(req, func(p *listing.Result, err error) {
		if err != nil {
			done(FormatError(err))
			return
		}
		var b strings.Builder
		for _, key := range p.Keys {
			fmt.Fprintf(&b, "%s ", key)
		}
		if p.More {
			b.WriteString("… ")
		}
		// The number shows how much of its index a listing reads, beyond what it returns.
		done(fmt.Sprintf("%s(%d looked at)", b.String(), p.Scanned))
	})
}
