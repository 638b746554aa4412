package scenario

import (
	"github.com/cockroachdb/datadriven"

	"cqld/coordinator"
	"cqld/ring"
)

// logged writes the lines of its input, "k1 a x", as a logged batch. Options of the line are at= (the coordinator),
// cl=, timeout= and ts=, the timestamp of all rows. For example, "logged at=1 cl=QUORUM" with the lines "k1 a x" and
// "k2 b y" writes two rows.
func (s *script) logged(d *datadriven.TestData) {
	done := s.begin("batch")
	s.c.Node(ring.NodeID(number(d, "at", 1))).Batches.Write(&coordinator.WriteRequest{
		Mutations: s.lines(d), Consistency: level(d), Type: coordinator.WriteBatch,
		Timeout: duration(d, "timeout", "2s"),
		Ordered: s.c.Table.Options.WriteOrdering != "", Stamp: int64(number(d, "ts", 1)),
	}, func(err error) { done(FormatError(err)) })
}

// batches prints how many logged batches each node stores for other nodes. A batch is held until all its writes have an
// acknowledgment or a hint. Nodes without batches print nothing.
func (s *script) batches(*datadriven.TestData) {
	for _, n := range s.c.Nodes {
		if k := n.Batches.Held(); k > 0 {
			s.c.printf("%d holds %d", n.ID, k)
		}
	}
}

// handover makes leaving nodes hand over the batches and hints that they store.
func (s *script) handover(d *datadriven.TestData) {
	// Each node hands over on its own; the results come in the order in which messages are delivered.
	for _, id := range nodes(d) {
		s.c.Node(id).HandOver(func(err error) { s.c.printf("%d has handed over: %s", id, FormatError(err)) })
	}
}
