package node

// StopRequested is closed when an operator has asked the process to stop the node.
func (n *Node) StopRequested() <-chan struct{} { return n.stopRequested }
