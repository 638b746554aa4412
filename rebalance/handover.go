package rebalance

import (
	"fmt"

	"cqld/ring"
)

// handOver starts the hand-over when this node is about to leave, unless it has started before.
func (m *moveMachine) handOver(t *ring.Topology, self ring.NodeID, out []moveEffect) []moveEffect {
	for _, o := range t.Operations() {
		// handing keeps the id of the operation, because this function is called for each new topology until the log
		// has Handed.
		if o.Hands && !o.Handed && o.Node == self && m.handing != o.ID {
			m.handing = o.ID
			out = append(out, moveEffect{kind: effectHandOver, operation: o.ID})
		}
	}
	return out
}

// handedOver handles the end of the handover. Success is reported until the log contains it.
func (m *moveMachine) handedOver(ev *moveEvent, out []moveEffect) []moveEffect {
	switch {
	case ev.err != nil:
		return append(out, moveEffect{kind: effectNote,
			note: fmt.Sprintf("operation %d: the hand-over failed: %v", ev.operation, ev.err)})
	// An aborted operation needs no report, and the log would refuse it forever.
	case m.view.Topology().Operation(ev.operation) == nil:
		return out
	}
	return append(out, moveEffect{kind: effectHanded, operation: ev.operation})
}
