package listing

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/await"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/testcluster"
	"cqld/types"
)

// realClock is the system clock: these tests check goroutines, not times.
type realClock struct{ start time.Time }

func (c realClock) Now() time.Time                            { return time.Now() }
func (c realClock) Monotonic() time.Duration                  { return time.Since(c.start) }
func (c realClock) After(d time.Duration, f func()) env.Timer { return time.AfterFunc(d, f) }

// fakeRing is a ring whose nodes answer with pages of keys in memory.
type fakeRing struct {
	member
	nodes   map[ring.NodeID]*fakeNode
	running running
}

// fakeNode is a node with some live partitions and some deleted ones. It returns a few at a time, late, or not at all.
type fakeNode struct {
	keys  []string // sorted; dead ones end with a dash
	quiet int      // of 100 requests, the number that fail or are never answered
}

func dead(key string) bool { return strings.HasSuffix(key, "-") }

// running counts goroutines. Unlike a WaitGroup, it allows goroutines to begin while another one waits: timers send
// requests to nodes at any time.
type running struct{ n atomic.Int64 }

func (r *running) Go(f func()) {
	r.n.Add(1)
	go func() {
		defer r.n.Add(-1)
		f()
	}()
}

func (r *running) Wait(t testing.TB) {
	await.Until(t, "all goroutines have ended", func() bool { return r.n.Load() == 0 })
}

// newFakeRing returns a ring in which node creates each node, and the table whose partitions are listed.
func newFakeRing(t testing.TB, nodes, factor int, node func() *fakeNode) (*fakeRing, *schema.Table) {
	text, options := types.Native(types.Text), schema.DefaultOptions()
	options.SpeculativeRetry = "99p"
	f := &fakeRing{nodes: map[ring.NodeID]*fakeNode{}}
	f.self, f.schema = 1, testcluster.Catalog(t,
		&schema.CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: factor}},
		&schema.CreateTable{Keyspace: "ks", Table: "t", ID: schema.UUID{1}, Options: options,
			Columns: []schema.ColumnSpec{
				{Name: "PartitionKey", Kind: schema.PartitionKey, Type: text},
				{Name: "RowKey", Kind: schema.Clustering, Type: text},
			}})
	var members []*ring.Node
	for i := range nodes {
		id := ring.NodeID(i + 1)
		members = append(members, &ring.Node{ID: id, Datacenter: "dc1", Rack: "r1", State: ring.Normal,
			Tokens: []ring.Token{ring.Token(i) << 60}})
		f.nodes[id] = node()
	}
	f.topology = ring.NewTopology(1, members)
	return f, f.schema.Table("ks", "t")
}

// lister returns a Lister of node 1, and its coordinator.
func (f *fakeRing) lister() (*Lister, *coordinator.Coordinator) {
	clock := realClock{time.Now()}
	c := coordinator.New(coordinator.Options{View: f, Replicas: f, Clock: clock})
	return New(Options{Coordinator: c, View: f, Replicas: f, Clock: clock}), c
}

// Replica implements coordinator.Replicas.
func (f *fakeRing) Replica(ring.NodeID) coordinator.Replica {
	panic("a listing by the partition index reads rows")
}

// Page implements Replicas.
func (f *fakeRing) Page(to ring.NodeID, _ coordinator.Trace, _ uint64, q *PageRequest, timeout time.Duration,
	done func(*Page, error)) {
	n := f.nodes[to]
	page := n.page(q)
	if rand.IntN(100) >= n.quiet {
		if rand.IntN(3) == 0 {
			done(page, nil)
			return
		}
		f.running.Go(func() {
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			done(page, nil)
		})
		return
	}
	f.running.Go(func() {
		if rand.IntN(2) == 0 {
			time.Sleep(timeout)
		}
		done(nil, coordinator.ErrNoReply)
	})
}

// page returns a page that ends anywhere.
func (n *fakeNode) page(q *PageRequest) *Page {
	page := &Page{}
	keys := slices.Clone(n.keys)
	if q.Reversed {
		slices.Reverse(keys)
	}
	most := 1 + rand.IntN(12)
	for _, key := range keys {
		if !q.Span.contains([]byte(key)) {
			continue
		}
		if page.More = page.Scanned == most || len(page.Keys) == q.Limit; page.More {
			break
		}
		page.Scanned, page.Last = page.Scanned+1, []byte(key)
		if !dead(key) {
			page.Keys = append(page.Keys, []byte(key))
		}
	}
	return page
}

// TestListingMatchesQuorum lists partitions that are live on a quorum of their replicas, on fewer, or on none. Pages
// end anywhere and arrive late or never. Some requests accept a partial result.
func TestListingMatchesQuorum(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		nodes := 1 + rng.IntN(6)
		factor := 1 + rng.IntN(min(nodes, 4))
		f, table := newFakeRing(t, nodes, factor, func() *fakeNode { return &fakeNode{quiet: rng.IntN(2) * 3} })
		var acknowledged, anywhere []string
		for i := range rng.IntN(120) {
			key := fmt.Sprintf("%03d", rng.IntN(1000))
			if rng.IntN(3) == 0 {
				key += "-"
			}
			if slices.Contains(anywhere, key) {
				continue
			}
			anywhere = append(anywhere, key)
			token := row.NewPartitionKey([]byte(key)).Token
			natural := slices.Clone(f.topology.Placement(table.Replication).Replicas(token).Natural)
			rng.Shuffle(len(natural), func(a, b int) { natural[a], natural[b] = natural[b], natural[a] })
			holders := rng.IntN(factor + 1)
			if i%2 == 0 {
				holders = max(holders, ring.QuorumOf(factor))
			}
			for _, id := range natural[:holders] {
				f.nodes[id].keys = append(f.nodes[id].keys, key)
			}
			if holders >= ring.QuorumOf(factor) && !dead(key) {
				acknowledged = append(acknowledged, key)
			}
		}
		for _, n := range f.nodes {
			slices.Sort(n.keys)
		}
		l, c := f.lister()
		var all sync.WaitGroup
		for range 8 {
			req := &Request{
				Table: table, Limit: rng.IntN(30), Reversed: rng.IntN(2) == 0, Consistency: ring.Quorum,
				Timeout: 200 * time.Millisecond,
			}
			if rng.IntN(3) == 0 {
				req.Patience = time.Duration(1 + rng.IntN(2_000_000))
			}
			if rng.IntN(2) == 0 {
				req.Span.From = []byte(fmt.Sprintf("%03d", rng.IntN(1000)))
			}
			if rng.IntN(2) == 0 {
				req.Span.To = []byte(fmt.Sprintf("%03d", rng.IntN(1000)))
			}
			all.Add(1)
			l.List(req, func(p *Result, err error) {
				defer all.Done()
				if err == nil {
					checkListing(t, req, p, acknowledged, anywhere)
				} else if !strings.Contains(fmt.Sprintf("%T", err), "Read") {
					t.Errorf("the error is not a read error: %T %v", err, err)
				}
			})
		}
		all.Wait()
		f.running.Wait(t)
		if n := c.Load().Reads; n != 0 {
			t.Errorf("seed %d: %d reads count as in flight after all have ended", seed, n)
		}
	}
}

// TestPartialResultsReachTheEnd lists partitions that are all deleted, with almost no Patience. Each result reports the
// key up to which it is complete.
func TestPartialResultsReachTheEnd(t *testing.T) {
	f, table := newFakeRing(t, 3, 3, func() *fakeNode {
		n := &fakeNode{}
		for i := range 100 {
			n.keys = append(n.keys, fmt.Sprintf("%03d-", i))
		}
		return n
	})
	l, _ := f.lister()
	results := 0
	for _, reversed := range []bool{false, true} {
		req := &Request{Table: table, Reversed: reversed, Consistency: ring.Quorum, Timeout: time.Minute, Patience: 1}
		for more := true; more; results++ {
			var p *Result
			var err error
			var ended sync.WaitGroup
			ended.Add(1)
			l.List(req, func(result *Result, failed error) {
				defer ended.Done()
				p, err = result, failed
			})
			ended.Wait()
			if err != nil || len(p.Keys) > 0 || p.More != (p.Reached != nil) {
				t.Fatalf("%+v %v", p, err)
			}
			if more = p.More; more {
				req.Span = req.Span.after(p.Reached, reversed)
			}
		}
	}
	f.running.Wait(t)
	if results < 6 || results > 202 {
		t.Errorf("%d results", results)
	}
}

func checkListing(t *testing.T, req *Request, p *Result, acknowledged, anywhere []string) {
	compare := bytes.Compare
	if req.Reversed {
		compare = func(a, b []byte) int { return bytes.Compare(b, a) }
	}
	listed := map[string]bool{}
	for i, key := range p.Keys {
		if i > 0 && compare(p.Keys[i-1], key) >= 0 {
			t.Errorf("%q precedes %q", p.Keys[i-1], key)
		}
		if bytes.Compare(key, req.Span.From) < 0 || req.Span.To != nil && bytes.Compare(key, req.Span.To) >= 0 {
			t.Errorf("%q is outside of %q", key, req.Span)
		}
		if !slices.Contains(anywhere, string(key)) || dead(string(key)) {
			t.Errorf("no node returned %q", key)
		}
		listed[string(key)] = true
	}
	if req.Limit > 0 && (len(p.Keys) > req.Limit || p.More && len(p.Keys) < req.Limit && req.Patience == 0) {
		t.Errorf("%d keys of %d, more %v", len(p.Keys), req.Limit, p.More)
	}
	switch n := len(p.Keys); {
	case p.More != (p.Reached != nil):
		t.Errorf("more %v, reached %q", p.More, p.Reached)
	case p.More && n > 0 && compare(p.Reached, p.Keys[n-1]) < 0:
		t.Errorf("%q was reached, after %q", p.Reached, p.Keys)
	}
	for _, key := range acknowledged {
		inside := key >= string(req.Span.From) && (req.Span.To == nil || key < string(req.Span.To))
		covered := !p.More || compare([]byte(key), p.Reached) <= 0
		if inside && covered && !listed[key] {
			t.Errorf("%q is missing: %q of %+v", key, p.Keys, req.Span)
		}
	}
}
