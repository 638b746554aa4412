package node

import (
	"cqld/query"
)

// functionStats returns the figures of user-defined functions, which are zero until the node serves clients. processor
// is set when the servers are opened for the first time.
func (n *Node) functionStats() (s query.FunctionStats) {
	// The channel of HasOpened orders the assignment of processor before this read; without it, there is a data race.
	if n.servers.HasOpened() {
		s = n.processor.FunctionStats()
	}
	return s
}
