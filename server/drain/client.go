package drain

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Key identifies a client as far as a server can: by its address, driver and session, if the client sent these.
type Key struct {
	Address         netip.Addr
	Driver, Session string
}

// Clients contains the clients with draining connections. The zero value is ready for use.
type Clients struct {
	mu struct {
		sync.Mutex
		all map[Key]*Client
	}
}

// Executor is a connection that executes requests.
type Executor interface {
	// Executing returns how many requests of the connection are being executed.
	Executing() int
}

// Join adds a connection to the draining ones of a client, and returns the client.
func (s *Clients) Join(key Key, e Executor) *Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.all == nil {
		s.mu.all = map[Key]*Client{}
	}
	c := s.mu.all[key]
	if c == nil {
		c = new(Client)
		s.mu.all[key] = c
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.connections = append(c.mu.connections, e)
	return c
}

// Client is one client with draining connections. When one connection ends, threads that waited for its answers
// continue, and may use another connection. That one must therefore not end at the same moment, however quiet it was.
// A nil Client means that a connection ends independently of others.
type Client struct {
	ending   atomic.Bool  // one connection is being ended
	ended    atomic.Int64 // when the last one ended, ns since 1970
	requests atomic.Int64 // received since the drain began

	mu struct {
		sync.Mutex
		connections []Executor
	}
}

// beginEnd reports whether the caller may end its connection now; if so, it must call FinishEnd.
func (c *Client) beginEnd() bool { return c == nil || c.ending.CompareAndSwap(false, true) }

// FinishEnd lets another connection end; if answers were released at now, only after that one has been quiet again.
func (c *Client) FinishEnd(now time.Time, released bool) {
	if c == nil {
		return
	}
	if released {
		c.ended.Store(now.UnixNano())
	}
	c.ending.Store(false)
}

// executing returns how many requests of the client are being executed, or 0 if the client has many connections.
func (c *Client) executing() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.connections) > connectionsPolled {
		return 0
	}
	for _, e := range c.mu.connections {
		n += e.Executing()
	}
	return n
}

// many reports whether the client has too many connections for each to examine the others often.
func (c *Client) many() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.connections) > connectionsPolled
}

func (c *Client) lastEnd() time.Time {
	if c == nil {
		return time.Time{}
	}
	return time.Unix(0, c.ended.Load())
}
