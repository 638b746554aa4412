package server

import (
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"cqld/server/account"
	"cqld/server/frame"
)

// Bound identifies a bound on what clients may use, in Server.Limited. A bound is an index of Server.limited and a
// label of metrics; new bounds are added before Bounds.
type Bound int

// The bounds.
const (
	BoundConnections     Bound = iota // ConnectionsMax: connections refused
	BoundPerAddress                   // ConnectionsPerAddressMax: connections refused
	BoundHandshakes                   // HandshakesMax: oldest connections closed
	BoundHandshakeTime                // HandshakeTimeout: connections closed
	BoundHandshakeBytes               // handshakeFrameMax: requests refused before authentication
	BoundIdle                         // IdleTimeout: connections closed
	BoundRateRefused                  // RequestsPerSecond: requests refused
	BoundRateDelayed                  // RequestsPerSecond: requests delayed
	BoundAddressInFlight              // AddressBytesMax: requests refused
	BoundVersion                      // VersionMax, OlderVersionsRefused: requests refused
	BoundStuck                        // stuckGrace: connections closed whose clients do not read while memory is short
	Bounds
)

// String returns the name in metrics.
func (b Bound) String() string {
	return [Bounds]string{"connections", "connections_per_address", "handshakes", "handshake_time", "handshake_bytes",
		"idle_time",
		"rate_refused", "rate_delayed", "address_in_flight", "protocol_version", "unread_replies"}[b]
}

// Limited returns how often a bound has been reached. The count is since the server was created.
func (s *Server) Limited(b Bound) int64 {
	if b == BoundHandshakes {
		return s.handshakes.closed.Load()
	}
	return s.limited[b].Load()
}

// refusedError is the error for a connection that exceeds a bound.
type refusedError struct {
	bound Bound
	limit int
}

func (e *refusedError) Error() string {
	if e.bound == BoundPerAddress {
		return fmt.Sprintf("the limit of %d connections per address is reached", e.limit)
	}
	return fmt.Sprintf("the limit of %d connections is reached", e.limit)
}

// address is the state shared by the connections of one client address. Server.mu guards it. It exists as long as the
// address has a connection.
type address struct {
	connections int
	budget      *account.Budget // nil without AddressBytesMax
}

// enterLocked counts a connection of an address. It returns an error if there are too many.
func (s *Server) enterLocked(c *conn) error {
	addr := c.client.Addr()
	a := s.mu.addresses[addr]
	// The first connection of the address.
	if a == nil {
		a = &address{}
		if s.limits.AddressBytesMax > 0 {
			a.budget = account.NewBudget(s.limits.AddressBytesMax)
		}
		s.mu.addresses[addr] = a
	}
	// Checked before anything is counted, so a refused connection needs no leaveLocked.
	if bound := s.limits.ConnectionsPerAddressMax; bound > 0 && a.connections >= bound {
		return &refusedError{BoundPerAddress, bound}
	}
	a.connections++
	c.account.Join(s.memory.Address(addr), a.budget, &s.limited[BoundAddressInFlight])
	return nil
}

// leaveLocked is the opposite of enterLocked.
func (s *Server) leaveLocked(addr netip.Addr) {
	if a := s.mu.addresses[addr]; a != nil {
		// The entry is deleted with its last connection, so that addresses without connections use no memory.
		if a.connections--; a.connections <= 0 {
			delete(s.mu.addresses, addr)
		}
	}
}

// rate admits a number of requests per second. It allows a burst of one second's requests. It is a token bucket with a
// capacity of one second (GCRA): next is the theoretical arrival time of the next request.
type rate struct {
	interval time.Duration // between requests

	mu   sync.Mutex
	next time.Time // when the next request is admitted without the burst
}

// newRate returns nil, which means no bound, if perSecond is zero.
func newRate(perSecond int) *rate {
	if perSecond <= 0 {
		return nil
	}
	// At least a nanosecond, because a rate above 10^9 would divide to zero.
	return &rate{interval: max(time.Second/time.Duration(perSecond), 1)}
}

// admit returns how long a request must wait. If wait is false, a request that would have to wait is not counted. A
// request that waits is counted at once, so that later ones wait longer.
func (r *rate) admit(now time.Time, wait bool) (delay time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The time of the next request may precede now by a second: these are the requests of the burst.
	if burst := now.Add(-time.Second + r.interval); r.next.Before(burst) {
		r.next = burst
	}
	if delay = r.next.Sub(now); delay > 0 && !wait {
		return delay, false
	}
	r.next = r.next.Add(r.interval)
	return max(delay, 0), true
}

// overRate is the error for a request beyond RequestsPerSecond, with Cassandra's text.
type overRate struct{ perSecond int }

// Error returns the message for the client.
func (e *overRate) Error() string {
	return "Request breached global limit of " + strconv.Itoa(e.perSecond) +
		" requests/second. Server is currently in an overloaded state and cannot accept more requests."
}

// limitRate waits until the request may be executed. If the client wants to be refused instead (THROW_ON_OVERLOAD), it
// returns an error. Waiting stops the reading of the connection, which slows the client down. It blocks the reader of
// one connection and no worker.
func (c *conn) limitRate() error {
	s := c.server
	if s.rate == nil {
		return nil // without reading the clock
	}
	delay, ok := s.rate.admit(time.Now(), !c.throw)
	if !ok {
		s.limited[BoundRateRefused].Add(1)
		return &overRate{s.limits.RequestsPerSecond}
	}
	if delay <= 0 {
		return nil
	}
	s.limited[BoundRateDelayed].Add(1)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	// The connection stops reading. This request is still executed, because it was read.
	case <-c.halt:
	}
	return nil
}

// checkVersion refuses a version that the operator does not allow. Each connection checks it in its first requests. A
// refusal names the newest version that is allowed, by which drivers negotiate downwards.
func (s *Server) checkVersion(v frame.Version) error {
	switch {
	// The message is the same as for a version that this server does not know, so that drivers try an older one.
	case v > s.newestVersion():
		s.limited[BoundVersion].Add(1)
		return protocolError((&frame.UnsupportedVersion{Version: uint8(v), Newest: s.newestVersion()}).Error())
	case s.limits.OlderVersionsRefused && v < s.limits.VersionMax:
		s.limited[BoundVersion].Add(1)
		return protocolError(fmt.Sprintf("Rejecting Protocol Version %v < %v.", v, s.limits.VersionMax))
	}
	return nil
}

// newestVersion returns the newest version: a server of v5 also has the beta version.
func (s *Server) newestVersion() frame.Version {
	if s.limits.VersionMax == frame.V5 {
		return frame.V6
	}
	return s.limits.VersionMax
}

// refusesVersion reports whether checkVersion refuses a version.
func (s *Server) refusesVersion(v frame.Version) bool {
	return v > s.newestVersion() || s.limits.OlderVersionsRefused && v < s.limits.VersionMax
}
