package node

import (
	"cqld/query"
)

// functionStats returns the figures of user-defined functions, which are zero until the node serves clients. processor
// is set when the servers are opened for the first time.
func (n *Node) functionStats() (s query.FunctionStats) {
	if n.servers.HasOpened() {
		s = n.processor.FunctionStats()
	}
	return s
}
