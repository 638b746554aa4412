package clients

import (
	"context"
	"time"

	"cqld/server"
)

// Leave is called when this node is no longer a member. From then on, it sends no events to its clients, which keep
// seeing the last ring that contained it (docs/adr/0016). It must be called once only: a second call would close
// departed twice. It is called by the cluster's loop, so the rest happens in a goroutine (retire).
func (s *Servers) Leave() {
	// No server becomes visible after the lock is released, so retire sees all of them.
	s.publishing.Lock()
	s.leaving.Store(true)
	s.publishing.Unlock()
	close(s.departed)
	q := s.cql.Swap(nil)
	s.o.Run(func() { s.retire(q) })
}

// retire ends the service of a node that is no longer a member; the process keeps running so that operators can query
// it. Clients are served, with the last ring, until all other nodes know of the departure. A driver that is
// disconnected takes the ring from the next node, and a driver that receives a ring without the node it is connected to
// may never recover (docs/adr/0016). q is the CQL server that was open, or nil. Both bounds together limit how long the
// node is visible after its departure.
func (s *Servers) retire(q *server.Server) {
	defer close(s.retired)
	s.o.Log.Warn("node has left the cluster; it no longer serves clients")
	ctx, cancel := context.WithTimeout(context.Background(), departureTimeout)
	defer cancel()
	if err := s.o.AwaitDeparture(ctx); err != nil {
		s.o.Log.Warn("closing client connections before all nodes know that this node has left", "err", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), retireTimeout)
	defer cancel()
	if q != nil {
		if err := q.Leave(ctx, s.o.Native); err != nil {
			s.o.Log.Warn("client connections closed before they were drained", "err", err)
		}
	}
	if err := s.DrainTables(ctx); err != nil {
		s.o.Log.Warn("Azure Tables connections closed before they were drained", "err", err)
	}
}

// Bounds of the wait until the other nodes know that this node has left, and until the last requests of its clients
// have ended. A node that does not answer is considered dead after two seconds.
const (
	departureTimeout = 5 * time.Second
	retireTimeout    = 10 * time.Second
)

// Left reports whether this node has left the cluster while it was running.
func (s *Servers) Left() bool { return s.leaving.Load() }

// Departed returns a channel that is closed when this node is no longer a member.
func (s *Servers) Departed() <-chan struct{} { return s.departed }

// Retired returns a channel that is closed when this node is no longer a member and serves no clients.
func (s *Servers) Retired() <-chan struct{} { return s.retired }

// AwaitRetired returns when clients are no longer served, or when ctx ends.
func (s *Servers) AwaitRetired(ctx context.Context) {
	select {
	case <-s.retired:
	case <-ctx.Done():
	}
}
