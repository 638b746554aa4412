package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"cqld/cluster"
	"cqld/node/admin"
	"cqld/node/health"
)

// stuckAfter is how long the loop that handles metadata may not run until the process should be restarted. A slow disk
// delays the loop by seconds.
const stuckAfter = time.Minute

// probes answers the probes of a supervisor. The zero value answers nothing. open, live and details are called by
// different goroutines, which share only the pointers.
type probes struct {
	server  *health.Server                  // nil: health_address is not set
	beating atomic.Pointer[cluster.Cluster] // whose loop runs; nil before the loop starts and after it ends
	backups atomic.Pointer[admin.Backups]   // nil until the node executes schedules
}

// open serves the probes on an address, if it is set, from the beginning: a start may take long. It does nothing if no
// address is set.
func (p *probes) open(at netip.AddrPort, ready func() error, log *slog.Logger) error {
	if !at.IsValid() {
		return nil
	}
	// The machine's network even if the node has another one: supervisors are outside of the process.
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		return fmt.Errorf("node: listen for probes: %w", err)
	}
	p.server = health.Serve(l, health.Checks{Live: p.live, Ready: ready, Details: p.details}, log)
	return nil
}

// live returns an error if the process should be restarted. A node that is not ready, or lacks a majority, is live: a
// restart would not help.
func (p *probes) live() error {
	c := p.beating.Load()
	if c == nil {
		return nil // replaying logs, or stopped
	}
	// Idle is the time since the loop ran last.
	if idle := c.Idle(); idle > stuckAfter {
		return fmt.Errorf("the metadata loop has not run for %v", idle.Round(time.Second))
	}
	return nil
}

// details returns what limits this node although it serves clients. Clients with other requests are not affected by a
// missing majority, so the node stays ready.
func (p *probes) details() (lines []string) {
	if c := p.beating.Load(); c != nil {
		if err := c.MajorityError(); err != nil {
			lines = append(lines, err.Error())
		}
	}
	if b := p.backups.Load(); b != nil {
		for _, o := range b.Overdue() {
			lines = append(lines, fmt.Sprintf("backup schedule %s is overdue: it has no good backup since %s", o.Name,
				o.Last.Format(time.RFC3339)))
		}
	}
	return lines
}

// runSchedules executes the schedules of backups until ctx ends. The probes show overdue ones from then on.
func (p *probes) runSchedules(ctx context.Context, b *admin.Backups) {
	p.backups.Store(b)
	b.Scheduler.Run(ctx)
}

// close stops the server of the probes. It is safe to call if open has failed or was not called.
func (p *probes) close() {
	if p.server != nil {
		p.server.Close()
	}
}

// Served returns a channel that is closed when clients can connect for the first time.
func (n *Node) Served() <-chan struct{} { return n.servers.Opened() }
