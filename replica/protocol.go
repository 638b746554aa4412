package replica

import (
	"cqld/coordinator"
	"cqld/messaging"
	"cqld/ring"
)

// TracedTransport returns transport for one traced request: the events of the node that answers go to t.
func TracedTransport(transport messaging.Transport, t coordinator.Trace) messaging.Transport {
	return messaging.Traced(transport, func(to ring.NodeID) func([]messaging.TraceEvent) {
		answered := t.Asked(to)
		return func(events []messaging.TraceEvent) {
			converted := make([]coordinator.TraceEvent, len(events))
			for i, e := range events {
				converted[i] = coordinator.TraceEvent(e)
			}
			answered(converted)
		}
	})
}
