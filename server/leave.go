package server

import (
	"context"
	"net/netip"
	"time"

	"cqld/server/frame"
)

// Leave is Drain for a node that is gone from the ring for good, and which clients reached at native. Connections for
// requests end first, as Drain ends them: the other nodes serve requests of a former member for a while. Those that listen to
// events are then told that the node is down, and end. A driver may notice the end of its one control connection only when
// it next uses it, half a minute later (the Python driver does), and takes no notice of DOWN while it has a connection for
// requests.
//
// A node that comes back must not say so of itself: a driver that is connected again by the time it looks at the event
// would cut itself off (gocql looks a second later).
func (s *Server) Leave(ctx context.Context, native netip.AddrPort) error {
	s.stopAccepting()
	var ending []*conn
	for _, c := range s.connections() {
		if c.events.Load() == 0 {
			c.drain()
			ending = append(ending, c)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, c := range ending {
			select {
			case <-c.ended:
			case <-ctx.Done():
			}
		}
	}()
	s.releaseHeld(ctx, ended)
	<-ended
	gap := time.NewTimer(leaveGap)
	defer gap.Stop()
	select {
	case <-gap.C:
		s.NotifyStatus(frame.NodeDown, native)
	case <-ctx.Done():
	}
	return s.Drain(ctx)
}
