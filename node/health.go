package node

import (
	"fmt"
	"net"
	"time"

	"cqld/node/health"
)

// stuckAfter is how long the loop that handles metadata may not run until the process should be restarted. A slow disk
// delays the loop by seconds.
const stuckAfter = time.Minute

// openHealth serves the probes on health_address, if it is set, from the beginning: a start may take long.
func (n *Node) openHealth() error {
	if !n.opts.HealthAddress.IsValid() {
		return nil
	}
	l, err := net.Listen("tcp", n.opts.HealthAddress.String())
	if err != nil {
		return fmt.Errorf("node: listen for probes: %w", err)
	}
	n.health = health.Serve(l, health.Checks{Live: n.live, Ready: n.servers.Ready, Details: n.details}, n.log)
	return nil
}

// live returns an error if the process should be restarted.
func (n *Node) live() error {
	c := n.beating.Load()
	if c == nil {
		return nil // replaying logs, or stopped
	}
	if idle := c.Idle(); idle > stuckAfter {
		return fmt.Errorf("the metadata loop has not run for %v", idle.Round(time.Second))
	}
	return nil
}

// details returns what limits this node although it serves clients.
func (n *Node) details() (lines []string) {
	if c := n.beating.Load(); c != nil {
		if err := c.MajorityError(); err != nil {
			lines = append(lines, err.Error())
		}
	}
	return lines
}

// Served returns a channel that is closed when clients can connect for the first time.
func (n *Node) Served() <-chan struct{} { return n.servers.Opened() }
