package node

import (
	"errors"
	"testing"
	"time"
)

// TestNodeThatLeavesWhileItOpensHasNotFailed opens the servers of a node that has left the ring. The node must not
// fail, whatever the error is: Retired ends its process, and the log reports that it has left.
func TestNodeThatLeavesWhileItOpensHasNotFailed(t *testing.T) {
	n := openNodes(t, 187, 1, nil).nodes[0]
	refused := errors.New("the first superuser was not created")
	if err := n.unlessLeft(refused); !errors.Is(err, refused) {
		t.Errorf("a member fails with %v", err)
	}
	n.servers.Leave()
	select {
	case <-n.Retired():
	case <-time.After(time.Minute):
		t.Fatal("the node does not retire")
	}
	if err := n.serveWhenJoined(); err != nil {
		t.Errorf("a node that has left the ring fails: %v", err)
	}
	if err := n.unlessLeft(refused); err != nil {
		t.Errorf("a node that has left the ring fails: %v", err)
	}
	select {
	case err := <-n.Failed():
		t.Errorf("a node that has left the ring reports a failure: %v", err)
	default:
	}
}
