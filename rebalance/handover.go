package rebalance

import (
	"fmt"

	"cqld/ring"
)

// handOver starts the hand-over when this node is about to leave, unless it has started before.
func (m *Movements) handOver(t *ring.Topology, self ring.NodeID) {
	for _, o := range t.Operations() {
		if !o.Hands || o.Handed || o.Node != self {
			continue
		}
		m.mu.Lock()
		// handing keeps the id of the operation: each new topology calls handOver again until the log has Handed.
		started := m.mu.handing == o.ID || m.mu.closed
		if !started {
			m.mu.handing = o.ID
		}
		m.mu.Unlock()
		if !started {
			m.o.HandOver(func(err error) { m.handedOver(o.ID, err) })
		}
	}
}

// handedOver is the event of the end of the hand-over. It reports success to the log until the log has taken it.
func (m *Movements) handedOver(operation uint64, err error) {
	if err != nil {
		m.o.Note(fmt.Sprintf("operation %d: the hand-over failed: %v", operation, err))
		return
	}
	m.mu.Lock()
	// An aborted operation needs no report, and the log would refuse it for ever.
	ended := m.mu.closed || m.o.View.Topology().Operation(operation) == nil
	m.mu.Unlock()
	if ended {
		return
	}
	m.o.Log.StartHanded(operation, func(err error) {
		if err != nil {
			m.o.Clock.After(movementRetry, func() { m.handedOver(operation, nil) })
		}
	})
}
