package simulation

import (
	"time"

	"cqld/schema"
	"cqld/simulation/texttable"
)

// skewMax is the maximum offset of clocks.
const skewMax = 5 * time.Second

// newSkewed returns the workload: registers in a table with write_ordering, written by clients with wrong clocks, like
// drivers that send a timestamp with every request, and by others that use the node's clock. Reads at QUORUM must be
// linearizable nevertheless. Without write_ordering, a client with a slow clock would lose its writes to older ones:
// the last write wins by its timestamp.
func newSkewed(c *Cluster) *registers {
	w := &registers{clients: newClients(c, "skewed"), table: c.table("skewed")}
	for client := range c.options.Clients {
		skew := w.rand.Between(-skewMax, skewMax)
		if client%3 == 2 {
			// The client has no clock, and the node issues its timestamps.
			skew = 0
		}
		w.skew = append(w.skew, skew)
	}
	return w
}

// skewedTable is a text table with write_ordering.
func skewedTable() *schema.CreateTable {
	t := texttable.New("skewed")
	t.Options.WriteOrdering = "quorum"
	return t
}

// stamp returns the timestamp that the client or its node gives to a write. The result is in microseconds since 1970.
func (w *registers) stamp(l *process, client int) int64 {
	if w.skew[client] == 0 {
		return l.hlc.Next()
	}
	return w.c.order.stamp() + w.skew[client].Microseconds()
}
