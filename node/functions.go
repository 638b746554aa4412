package node

import (
	"cqld/query"
)

// functionStats returns the figures of user-defined functions, which are zero until the node serves clients.
func (n *Node) functionStats() (s query.FunctionStats) {
	if n.servers.HasOpened() {
		s = n.processor.FunctionStats()
	}
	return s
}
