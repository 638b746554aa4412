package query

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/internal/wire"
	"cqld/request"
	"cqld/ring"
	"cqld/schema"
	"cqld/search"
)

// rowsAsText renders a result of text columns.
func rowsAsText(t *testing.T, r *Result) string {
	t.Helper()
	var out strings.Builder
	c := wire.NewCursor(r.Rows)
	for range r.RowCount {
		for i := range r.Metadata.Columns {
			if i > 0 {
				out.WriteString(" | ")
			}
			out.Write(c.Bytes())
		}
		out.WriteByte('\n')
	}
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestExplain shows the paths of statements, on a ring of three nodes of which one is down.
func TestExplain(t *testing.T) {
	store := &modelStore{}
	n := newOneNode()
	p := explainProcessor(n, store)
	s := &Session{Version: 5, Keyspace: "ks"}
	datadriven.RunTest(t, "testdata/explain.txt", func(t *testing.T, d *datadriven.TestData) string {
		params, level := &Params{}, ring.Quorum
		for _, a := range d.CmdArgs {
			switch a.Key {
			case "page":
				fmt.Sscan(a.Vals[0], &params.PageSize)
			case "int":
				var v int32
				fmt.Sscan(a.Vals[0], &v)
				params.Values = append(params.Values, wire.BytesValue(wire.AppendUint32(nil, uint32(v))))
			case "one":
				level = ring.One
			}
		}
		var out strings.Builder
		for _, text := range strings.Split(d.Input, "\n") {
			reads := store.reads
			r, err := p.Query(at(level), s, text, params)
			if err != nil {
				out.WriteString(errorText(err))
				continue
			}
			if d.Cmd == "exec" {
				continue
			}
			out.WriteString(rowsAsText(t, r))
			fmt.Fprintf(&out, "(%d reads)\n", store.reads-reads)
		}
		return out.String()
	})
}

// explainProcessor returns a processor on node 1 of three; node 3 is down.
func explainProcessor(n *oneNode, store request.Coordinator) *Processor {
	nodes := []*ring.Node{n.topology.Nodes()[0]}
	for i := range 2 {
		id := ring.NodeID(2 + i)
		nodes = append(nodes, &ring.Node{ID: id, Host: ring.HostID{byte(id)}, Datacenter: "datacenter1", Rack: "rack1",
			State:     ring.Normal,
			Internode: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(id)}), 7000),
			Tokens:    []ring.Token{ring.Token(id) << 60}})
	}
	n.topology = ring.NewTopology(2, nodes)
	return New(Options{View: halfView{n}, Changer: n, Executor: over(store), Clock: &testClock{}, Rand: testSource{},
		PagingKey: func() []byte { return []byte("key") },
		Estimate:  func(*schema.Table) (partitions, meanBytes int64, ok bool) { return 1000, 300, true },
		IndexEntries: func(req *search.Request, most int) (n int, ok bool) {
			i := slices.IndexFunc(req.Table.Indexes(), func(ix *schema.Index) bool { return ix.ID == req.Index })
			n, ok = map[string]int{"t_v_idx": 1 << 20, "t_s_idx": 70, "t_d_idx": 5}[req.Table.Indexes()[i].Name]
			return min(n, most), ok
		}})
}

// halfView is a view in which node 3 is down.
type halfView struct{ *oneNode }

func (halfView) Alive(id ring.NodeID) bool { return id != 3 }

type testSource struct{}

func (testSource) Uint64() uint64 { return 4 }

// TestExplainIsPrepared checks that EXPLAIN can be prepared, and binds the markers of its SELECT.
func TestExplainIsPrepared(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	r, err := p.Prepare(at(ring.One), s, "EXPLAIN ANALYZE SELECT v FROM t WHERE k = ?", "")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.Prepared.Result.Columns); n != 2 || len(r.Prepared.Binds) != 1 || len(r.Prepared.PartitionKey) != 1 {
		t.Fatalf("%d columns, markers %v, partition key %v", n, r.Prepared.Binds, r.Prepared.PartitionKey)
	}
	params := &Params{Values: []wire.Value{wire.BytesValue([]byte{0, 0, 0, 1})}}
	r, err = p.Execute(at(ring.One), s, r.Prepared.ID, params)
	if err != nil {
		t.Fatal(err)
	}
	if text := rowsAsText(t, r); !strings.Contains(text, "path | partition key") ||
		!strings.Contains(text, "commands | 1\n") {
		t.Error(text)
	}
}
