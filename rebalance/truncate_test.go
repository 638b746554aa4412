package rebalance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/simulation/testcluster"
)

// TestStreamsOfTruncatedTables streams a table while both nodes truncate it several times, in any order and at any
// time; messages are lost, and the receiver crashes. At the end, the receiver has no row that was written before a
// truncation began, and every row that was written after the last one.
func TestStreamsOfTruncatedTables(t *testing.T) {
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		w := truncatedWorld(t, rnd)
		name := 0
		write := func(nodes ...ring.NodeID) {
			name++
			m := w.mutation(fmt.Sprint("key", rnd.IntN(10)), fmt.Sprintf("row%05d", name), 1)
			for _, n := range nodes {
				w.nodes[n].engine.Apply([]*row.Mutation{m}, true, w.check)
			}
		}
		for range 20 + rnd.IntN(60) {
			write(2)
		}
		ended, sessions := false, 0
		pull := func() {
			sessions++
			w.nodes[1].streams.Start(Session{ID: "a", Epoch: 5, Table: w.table.StorageID, Range: ring.FullRange(),
				Source: 2}, nil,
				func(err error) { ended = ended || err == nil })
		}
		pull()
		oldest := 0 // rows up to it were written before the last truncation began
		for i := range 1 + rnd.IntN(3) {
			oldest = name
			first := ring.NodeID(1 + rnd.IntN(2))
			for k, n := range []ring.NodeID{first, 3 - first} {
				w.wander(rnd, pull)
				x := coordinator.Truncation{Table: w.table.StorageID, ID: uint64(100 + i)}
				testcluster.Truncate(w.nodes[n].local, 5, x, func(err error) {
					if err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
				})
				if k == 1 {
					for range rnd.IntN(5) {
						write(1, 2)
					}
				}
			}
		}
		for i := 0; !ended && i < 200; i++ {
			w.deliverAll()
			w.clock.Advance(time.Second)
		}
		if !ended {
			t.Fatalf("seed %d: the pull does not end: %s", seed, w.log.String())
		}
		var want []string
		for i := oldest + 1; i <= name; i++ {
			want = append(want, fmt.Sprintf("row%05d", i))
		}
		for id := ring.NodeID(1); id <= 2; id++ {
			if got := w.rows(id); !slices.Equal(got, want) {
				t.Errorf("seed %d: node %d has %v, want %v", seed, id, got, want)
			}
		}
		if log := w.log.String(); strings.Contains(log, "err=") {
			t.Errorf("seed %d: %s", seed, log)
		}
		w.close()
	}
}

// truncatedWorld returns two nodes with a table; a block is a few rows.
func truncatedWorld(t *testing.T, rnd *rand.Rand) *streamWorld {
	w := &streamWorld{t: t, nodes: map[ring.NodeID]*worldNode{}}
	w.limits = Limits{BlockBytes: 100 + rnd.IntN(600), FileBytes: int64(100 + rnd.IntN(2000)), Timeout: time.Second,
		RetryFor:       time.Hour,
		TruncationWait: 20 * time.Second}
	catalog, table := testCatalog(t)
	w.table = table
	for id := ring.NodeID(1); id <= 2; id++ {
		n := &worldNode{w: w, id: id, disk: vfs.NewCrashableMem(), view: &view{self: id, schema: catalog}}
		w.nodes[id] = n
		w.topology(n, "5")
		n.boot()
	}
	return w
}

// wander delivers messages and advances the time, and sometimes crashes the receiver.
func (w *streamWorld) wander(rnd *rand.Rand, pull func()) {
	for range rnd.IntN(12) {
		switch k := rnd.IntN(20); {
		case k < 14 && len(w.queue) > 0:
			m := w.queue[0]
			w.queue = slices.Delete(w.queue, 0, 1)
			m.arrive(false)
		case k < 15 && len(w.queue) > 0:
			w.queue = slices.Delete(w.queue, 0, 1)
		case k == 16:
			w.crash(1)
			pull()
		default:
			w.clock.Advance(time.Duration(rnd.IntN(300)) * time.Millisecond)
		}
	}
}

// deliverAll delivers all messages.
func (w *streamWorld) deliverAll() {
	for len(w.queue) > 0 {
		m := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		m.arrive(false)
	}
}

// rows returns the rows of one node, in order.
func (w *streamWorld) rows(id ring.NodeID) (out []string) {
	page, err := w.nodes[id].engine.Read(nil, &row.ReadCommand{Table: w.table.StorageID,
		Range: row.KeyRange{Tokens: ring.FullRange()}, Slices: []row.Slice{row.AllRows()}})
	w.check(err)
	var p row.PageReader
	p.Reset(page)
	for p.NextPartition() {
		for r := row.NewRow(); p.NextRow(r); {
			out = append(out, string(r.Clustering))
		}
	}
	slices.Sort(out)
	return out
}
