package server

import (
	"context"
	"net/netip"
	"time"

	"cqld/server/frame"
)

// Leave is Drain for a node that has left the ring permanently. native is its address for clients. Connections for
// requests end first, as in Drain: the other nodes serve requests of a former member for a while. Then connections
// that are registered for events are sent DOWN, and end. A driver may notice the end of its only control connection
// only when it uses it next, half a minute later (the Python driver), and ignores DOWN while it has a connection for
// requests.
//
// A node that will come back must not send DOWN for itself: a driver that has reconnected by the time it handles the
// event would close its connections (gocql handles it a second later). It returns Drain's error.
func (s *Server) Leave(ctx context.Context, native netip.AddrPort) error {
	// Drivers that reconnect choose other nodes.
	s.stopAccepting()
	var ending []*conn
	for _, c := range s.connections() {
		if !c.aboutNodes() {
			c.drain.begin()
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
