package rebalance

import (
	"fmt"

	"cqld/ring"
)

// handOver hands over what this node keeps for others, when it is about to leave, and has not yet begun to.
func (m *Movements) handOver(t *ring.Topology, self ring.NodeID) {
	for _, o := range t.Operations() {
		if !o.Hands || o.Handed || o.Node != self {
			continue
		}
		m.mu.Lock()
		begun := m.mu.handing == o.ID || m.mu.closed
		if !begun {
			m.mu.handing = o.ID
		}
		m.mu.Unlock()
		if !begun {
			m.o.HandOver(func(err error) { m.handedOver(o.ID, err) })
		}
	}
}

// handedOver is the event of the end: the cluster hears of it, until it has heard.
func (m *Movements) handedOver(operation uint64, err error) {
	if err != nil {
		m.o.Note(fmt.Sprintf("operation %d: nothing is handed over: %v", operation, err))
		return
	}
	m.mu.Lock()
	over := m.mu.closed || m.o.View.Topology().Operation(operation) == nil
	m.mu.Unlock()
	if over {
		return
	}
	m.o.Log.StartHanded(operation, func(err error) {
		if err != nil {
			m.o.Clock.After(movementRetry, func() { m.handedOver(operation, nil) })
		}
	})
}
