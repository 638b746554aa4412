package scenario

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/search"
	"cqld/storage"
	"cqld/storage/index"
	"cqld/types"
	"cqld/types/similarity"
)

// The indexes of table t: of its regular and of its static column.
const (
	// The IDs are far above the IDs of the tables in the catalog.
	indexOfV schema.StorageID = 1<<20 + iota
	indexOfS
	// indexOfNear indexes values of four bytes, as vectors of one dimension.
	indexOfNear
)

// definitions returns the indexes of a table.
func (c *Cluster) definitions(id schema.StorageID) []index.Definition {
	if c.Table == nil || id != c.Table.StorageID {
		return nil
	}
	return c.indexes
}

// define makes the definitions of the indexes of table t. They are not in the catalog, as CREATE INDEX would make them,
// but given to storage and the searcher directly.
func (c *Cluster) define() {
	for _, x := range []struct {
		id   schema.StorageID
		name string
	}{{indexOfV, "v"}, {indexOfS, "s"}} {
		// Both columns can be indexed.
		d, _ := index.ColumnDefinition(x.id, c.Table, c.Table.Column(x.name).ID, index.Cell)
		c.indexes = append(c.indexes, d)
	}
	near := index.Vectors{Dimensions: 1, Similarity: similarity.Euclidean}
	c.indexes = append(c.indexes, index.CellVectors(indexOfNear, c.Table.Column("v"), near))
}

// keepValues lets an engine that is opened with o keep the indexes of the cluster.
func (n *Node) keepValues(o *storage.Options) {
	n.Values = index.NewValues(n.c.definitions)
	index.MaintainValues(o, n.Values)
}

// buildValues builds the indexes of a node that has no rows. It is called once, when the node is created; a restart of
// the process keeps the indexes.
func (n *Node) buildValues() {
	for _, d := range n.c.indexes {
		// Without rows, the builds end at once, and every search may use the indexes.
		for more := true; more; {
			var err error
			if more, err = n.Values.Build(n.c.Table.StorageID, d.ID); err != nil {
				n.c.T.Fatal(err)
			}
		}
	}
}

// search searches by an index: "search v=red limit=3 cl=ONE at=2 key=k1 from=k1/c1". With s=, it searches the static
// column; with near=, the values of four bytes, which are floats, by score. With or=, it also finds the rows with that
// value of v. "more" continues after the last search of the script, with the same arguments.
func (s *script) search(d *datadriven.TestData) {
	done := s.begin("search")
	req := &search.Request{
		Table: s.c.Table, Index: indexOfV, Tokens: ring.FullRange(), Limit: number(d, "limit", 0),
		Order:       search.ByToken,
		Consistency: level(d), Timeout: duration(d, "timeout", "5s"), Now: s.c.Clock.Now().Unix(),
		StaticCounts: true, Reversed: d.HasArg("reversed"), From: s.searched,
	}
	// The position is removed first: a search that fails cannot be continued.
	if s.searched = nil; !d.HasArg("more") {
		req.From = nil
	}
	value := text(d, "v", "")
	if d.HasArg("s") {
		req.Index, value = indexOfS, text(d, "s", "")
	}
	// Terms are in the order-preserving encoding of the type of the column.
	terms := func(value string) []row.Slice {
		return []row.Slice{row.ExactRow(types.Native(types.Text).AppendOrdered(nil, []byte(value), false))}
	}
	if req.Terms = terms(value); d.HasArg("or") {
		req.Union = []search.Branch{{Index: indexOfV, Terms: terms(text(d, "or", ""))}}
	}
	if d.HasArg("near") {
		req.Index, req.Terms, req.Order, req.Near = indexOfNear, nil, search.ByScore, []byte(text(d, "near", ""))
	}
	if d.HasArg("key") {
		req.Key = row.NewPartitionKey([]byte(text(d, "key", "")))
	}
	s.c.Node(ring.NodeID(number(d, "at", 1))).Searcher.Search(req, func(p *search.Result, err error) {
		if err != nil {
			done(FormatError(err))
			return
		}
		s.searched = p.Next
		var b strings.Builder
		var r row.PageReader
		var x row.Row
		r.Reset(p.Page)
		for r.NextPartition() {
			rows := 0
			for ; r.NextRow(&x); rows++ {
				fmt.Fprintf(&b, "%s/%s=%s ", r.Key.Bytes, x.Clustering, x.Cells[0].Value)
			}
			// A partition with only a static row.
			if rows == 0 {
				fmt.Fprintf(&b, "%s ", r.Key.Bytes)
			}
		}
		if p.More {
			b.WriteString("… ")
		}
		done(fmt.Sprintf("%s(%d looked at)", b.String(), p.Scanned))
	})
}
