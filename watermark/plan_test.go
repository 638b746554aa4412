package watermark

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/schema"
)

// fourNodes is the view of a ring of four nodes.
type fourNodes struct {
	coordinator.View
	down ring.NodeID // 0: none
}

func (fourNodes) Self() ring.NodeID              { return 2 }
func (v fourNodes) Alive(id ring.NodeID) bool    { return id != v.down }
func key(i int) []byte                           { return fmt.Appendf(nil, "%03d", i) }
func members(ids ...ring.NodeID) ring.ReplicaSet { return ring.ReplicaSet{Natural: ids} }

func quorumOfFour(down ring.NodeID, reversed bool) *Plan[int] {
	p := &Plan[int]{}
	table := &schema.Table{Replication: ring.Replication{Class: ring.Simple, Factor: 4}}
	p.Reset(Options{View: fourNodes{down: down}, Topology: &ring.Topology{}, Table: table, Consistency: ring.Quorum,
		Reversed: reversed}, Position{Place: BeforeAll})
	p.Add(members(1, 2, 3, 4))
	return p
}

// run requests the entries that the nodes of a plan hold, in pages of random sizes and with responses in random order,
// and returns the entries up to the watermark. It fails if a page makes no progress.
func run(t *testing.T, r *rand.Rand, p *Plan[int], holds map[ring.NodeID][]int, failing ring.NodeID) (found []int,
	err error) {
	t.Helper()
	type request struct {
		n    *Node[int]
		from Position
	}
	var open []request
	for range 10_000 {
		if to := p.Reached(); p.Compare(to, p.Mark()) > 0 {
			var moved []int
			for _, n := range p.Nodes() {
				n.Entries = slices.DeleteFunc(n.Entries, func(e int) bool {
					passed := p.Compare(Position{Key: key(e)}, to) <= 0
					if passed && p.Compare(Position{Key: key(e)}, p.Mark()) > 0 && !slices.Contains(moved, e) {
						moved = append(moved, e)
					}
					return passed
				})
			}
			slices.SortFunc(moved, func(a, b int) int {
				return p.Compare(Position{Key: key(a)},
					Position{Key: key(b)})
			})
			found = append(found, moved...)
			p.SetMark(to)
		}
		if p.Mark().Place == AfterAll {
			return found, nil
		}
		asked, ok := p.Needed()
		if !ok {
			return found, p.Failure(len(found) > 0)
		}
		SelfLast(asked, 2)
		for i, n := range asked {
			if n.ID == 2 && i < len(asked)-1 {
				t.Fatal("this node is not asked last")
			}
			from := n.Position
			if p.Compare(from, p.Mark()) < 0 {
				from = p.Mark()
			}
			n.Sent(0)
			open = append(open, request{n, from})
		}
		if len(open) == 0 {
			t.Fatal("no node is asked, and the watermark is not at the end")
		}
		i := r.IntN(len(open))
		q := open[i]
		open = slices.Delete(open, i, i+1)
		if q.n.ID == failing && r.IntN(3) == 0 {
			p.Take(q.n, q.from, nil, errors.New("the disk of this node is gone"))
			continue
		}
		page := pageOf(p, holds[q.n.ID], q.from, 1+r.IntN(4))
		p.Take(q.n, q.from, page, nil)
	}
	t.Fatal("the plan does not end")
	return nil, nil
}

func pageOf(p *Plan[int], all []int, from Position, limit int) *Page[int] {
	sorted := slices.SortedFunc(slices.Values(all), func(a,
		b int) int {
		return p.Compare(Position{Key: key(a)}, Position{Key: key(b)})
	})
	page := &Page[int]{Scanned: 1}
	for _, e := range sorted {
		if p.Compare(Position{Key: key(e)}, from) <= 0 {
			continue
		}
		if len(page.Entries) == limit {
			page.More = true
			break
		}
		page.Entries, page.Last = append(page.Entries, e), key(e)
	}
	return page
}

// Entries that three of four nodes hold are found at QUORUM, in order and once, whichever nodes answer: one may be
// down, fail, or lack any entry.
func TestAcknowledgedEntriesAreFound(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		holds := map[ring.NodeID][]int{}
		var acknowledged []int
		for e := range 40 {
			lacking := ring.NodeID(1 + r.IntN(4))
			few := r.IntN(3) == 0 // only one node has it
			for id := ring.NodeID(1); id <= 4; id++ {
				if few == (id == lacking) {
					holds[id] = append(holds[id], e)
				}
			}
			if !few {
				acknowledged = append(acknowledged, e)
			}
		}
		p := quorumOfFour(ring.NodeID(r.IntN(2)), seed%2 == 1)
		failing := ring.NodeID(0)
		if !p.Nodes()[0].Failed() {
			failing = ring.NodeID(r.IntN(5))
		}
		found, err := run(t, r, p, holds, failing)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !slices.IsSortedFunc(found, func(a, b int) int {
			return p.Compare(Position{Key: key(a)},
				Position{Key: key(b)})
		}) || len(slices.Compact(slices.Sorted(slices.Values(found)))) != len(found) {
			t.Fatalf("seed %d: found in the order %v", seed, found)
		}
		for _, e := range acknowledged {
			if !slices.Contains(found, e) {
				t.Fatalf("seed %d: entry %d is on three nodes, and was not found", seed, e)
			}
		}
	}
}

func TestTooManyFailuresAreReported(t *testing.T) {
	p := quorumOfFour(1, false)
	asked, ok := p.Needed()
	if !ok || len(asked) != 3 || slices.ContainsFunc(asked, func(n *Node[int]) bool { return n.ID == 1 }) {
		t.Fatalf("%d nodes are asked, %v", len(asked), ok)
	}
	p.Take(asked[0], p.Mark(), &Page[int]{More: true, Last: key(5), Entries: []int{5}, Scanned: 1}, nil)
	p.Take(asked[1], p.Mark(), nil, errors.New("the disk of this node is gone"))
	if _, ok := p.Needed(); ok {
		t.Error("two nodes of four are enough for QUORUM")
	}
	var failure *coordinator.ReadFailure
	if err := p.Failure(false); !errors.As(err, &failure) || failure.Received != 1 || failure.BlockFor != 3 ||
		len(failure.Failures) != 1 {
		t.Errorf("%+v", failure)
	}
}

// A page that ends where it started would be requested forever.
func TestPagesMustAdvance(t *testing.T) {
	p := quorumOfFour(0, false)
	n := p.Nodes()[0]
	p.Take(n, Position{Key: key(7)}, &Page[int]{More: true, Last: key(7)}, nil)
	if !n.Failed() || n.Err == nil {
		t.Error("the page is accepted")
	}
}

func TestSetsReadFromTheSameNodesAreEqual(t *testing.T) {
	a, b, moving := members(1, 2, 3), members(3, 1, 2), members(1, 2, 3)
	moving.Before = []ring.NodeID{1, 2, 4}
	if !bytes.Equal(AppendReaders(nil, &a), AppendReaders(nil, &b)) ||
		bytes.Equal(AppendReaders(nil, &a), AppendReaders(nil, &moving)) {
		t.Error("equal bytes do not mean equal nodes")
	}
}
