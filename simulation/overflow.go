package simulation

import (
	"fmt"
	"strconv"
	"time"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/pages"
)

// overflows is a workload of rows that are written once, at QUORUM, while nodes are unreachable and hardly any hint is
// stored. Clients do not read. When the cluster is healed, every replica must receive every acknowledged row within
// overflowBound, by hints and automatic repair. A lost hint marks its partition dirty, and repair.Auto repairs dirty
// ranges soon (docs/GLOSSARY.md).
type overflows struct {
	clients
	table *schema.Table
	made  int
	// acked contains the keys of acknowledged rows, with their tokens.
	acked map[string]ring.Token
}

// overflowBound is how long after all nodes are back a replica may lack a row. It is simulated time, before Pace.
const overflowBound = 15 * time.Second

func newOverflows(c *Cluster) *overflows {
	return &overflows{clients: newClients(c, "overflows"), table: c.table("overflows"), acked: map[string]ring.Token{}}
}

func (w *overflows) start() { w.launch(4, 40*time.Millisecond, w.step) }

func (w *overflows) counts() (tried, acked int) { return w.made, len(w.acked) }

// step writes one new row.
func (w *overflows) step(l *process, _ int, end func() bool) {
	w.made++
	// A partition for each row: reads cannot be combined, and repairs must find each individually.
	key := row.NewPartitionKey([]byte("overflow" + strconv.Itoa(w.made)))
	m := &row.Mutation{}
	m.Reset(w.table.StorageID, key)
	r := row.NewRow()
	r.Clustering = []byte("c")
	r.Liveness.Timestamp = w.c.order.stamp()
	m.AddRow(r)
	l.write(m, ring.Quorum, func(err error) {
		if err == nil {
			w.acked[string(key.Bytes)] = key.Token
		}
		w.c.kernel.Trace(fmt.Sprint("overflow ", string(key.Bytes), err))
		end()
	})
}

// readBack reads each replica individually: a read through a coordinator would repair differences. It looks once a
// second.
func (w *overflows) readBack() {
	lacking := func() (key string, node int) {
		// The rows of this workload are never deleted, so any content of a partition is its row.
		partitions := map[string]map[ring.NodeID][]byte{}
		for _, n := range w.c.present() {
			if n.process == nil {
				return "", 0 // it did not start, which was recorded
			}
			if err := pages.Dump(n.process.engine, n.id, w.table, 0, partitions); err != nil {
				w.c.fail("node %d cannot read table overflows: %v", n.id, err)
				return "", 0
			}
		}
		// The order of the map does not matter: only whether any replica lacks a row is used.
		for k, token := range w.acked {
			for _, n := range w.c.holders(token) {
				if partitions[k][n.id] == nil {
					return k, int(n.id)
				}
			}
		}
		return "", 0
	}
	until := w.c.kernel.Now() + w.c.paced(overflowBound)
	for w.c.kernel.Now() < until {
		// Repairs start automatically when hints were dropped. The workload only waits for them.
		if key, _ := lacking(); key == "" {
			return
		}
		w.c.kernel.RunUntil(w.c.kernel.Now()+time.Second, func() bool { return false })
	}
	if key, _ := lacking(); key != "" {
		w.c.fail("%v after all nodes are back, a replica lacks a row for which a hint was lost", overflowBound)
	}
}

func (w *overflows) check() {}
