package simulation

import (
	"time"

	"cqld/schema"
)

// skewMax is how far clocks are off.
const skewMax = 5 * time.Second

// newSkewed makes the workload: registers in a table with write_ordering, written by clients whose clocks are off,
// as drivers' may be that give a timestamp with every request, and by others who leave it to the node's clock.
// Who reads at QUORUM must see one register all the same.
func newSkewed(c *Cluster) *registers {
	w := &registers{clients: newClients(c, "skewed"), table: c.table("skewed")}
	for client := range c.options.Clients {
		skew := w.rand.Between(-skewMax, skewMax)
		if client%3 == 2 {
			skew = 0 // has no clock
		}
		w.skew = append(w.skew, skew)
	}
	return w
}

// skewedTable is a text table with write_ordering.
func skewedTable() *schema.CreateTable {
	t := textTable("skewed")
	t.Options.WriteOrdering = "quorum"
	return t
}

// stamp is the timestamp that a write has at first.
func (w *registers) stamp(l *life, client int) int64 {
	if w.skew[client] == 0 {
		return l.hlc.Next()
	}
	return w.c.stamp() + w.skew[client].Microseconds()
}
