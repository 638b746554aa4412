package node

import "testing"

// TestNodeThatLeavesWhileItOpensHasNotFailed opens the servers of a node that has left the ring. The node must not
// fail: Retired ends its process, whose log says that it has left.
func TestNodeThatLeavesWhileItOpensHasNotFailed(t *testing.T) {
	n := openNodes(t, 187, 1, nil).nodes[0]
	n.servers.Leave()
	<-n.Retired()
	if err := n.serveWhenJoined(); err != nil {
		t.Errorf("a node that has left the ring fails: %v", err)
	}
	select {
	case err := <-n.Failed():
		t.Errorf("a node that has left the ring reports a failure: %v", err)
	default:
	}
}
