package rebalance

import (
	"fmt"

	"cqld/ring"
)

// handOver starts the hand-over when this node is about to leave, unless it has started before.
func (m *moveMachine) handOver(t *ring.Topology, self ring.NodeID, out []moveEffect) []moveEffect {
	for _, o := range t.Operations() {
		// handing keeps the id of the operation: each new topology comes here again until the log has Handed.
		if o.Hands && !o.Handed && o.Node == self && m.handing != o.ID {
			m.handing = o.ID
			out = append(out, moveEffect{kind: effectHandOver, operation: o.ID})
		}
	}
	return out
}

// handedOver takes the end of the hand-over. Success is reported until the log has taken it.
func (m *moveMachine) handedOver(ev *moveEvent, out []moveEffect) []moveEffect {
	switch {
	case ev.err != nil:
		return append(out, moveEffect{kind: effectNote,
			note: fmt.Sprintf("operation %d: the hand-over failed: %v", ev.operation, ev.err)})
	// An aborted operation needs no report, and the log would refuse it for ever.
	case m.view.Topology().Operation(ev.operation) == nil:
		return out
	}
	return append(out, moveEffect{kind: effectHanded, operation: ev.operation})
}
