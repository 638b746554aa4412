package azuretables

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// guests lists the connections without an authorized request so far, oldest first, and counts the others. They are
// limited to a part of all connections. A further one closes the oldest, so that connections that never send a complete
// request do not keep other clients from connecting.
type guests struct {
	max, knownMax int
	closed        atomic.Int64 // connections closed to admit another one

	mu     sync.Mutex
	known  int
	order  *list.List // of *connection
	places map[*connection]*list.Element
}

// newGuests returns an empty list for a server with the given maximum of connections.
func newGuests(connections int) *guests {
	return &guests{max: max(1, connections/guestsShare), knownMax: connections, order: list.New(), places: map[*connection]*list.Element{}}
}

// enter adds a connection and closes the oldest one if the list is full.
func (g *guests) enter(c *connection) {
	g.mu.Lock()
	g.places[c] = g.order.PushBack(c)
	var oldest *connection
	if g.order.Len() > g.max {
		oldest = g.order.Front().Value.(*connection)
		g.removeLocked(oldest)
	}
	g.mu.Unlock()
	if oldest != nil {
		g.closed.Add(1)
		oldest.Close()
	}
}

// promote marks a guest as known. It returns false if the maximum of known connections is reached.
func (g *guests) promote(c *connection) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known >= g.knownMax {
		return false
	}
	g.known++
	g.removeLocked(c)
	return true
}

// count returns the number of known connections.
func (g *guests) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known
}

// waiting returns the number of connections that are not known yet.
func (g *guests) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.order.Len()
}

// leave removes a connection that has ended.
func (g *guests) leave(c *connection) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.known.Swap(false) {
		g.known--
	}
	g.removeLocked(c)
}

func (g *guests) removeLocked(c *connection) {
	if place := g.places[c]; place != nil {
		g.order.Remove(place)
		delete(g.places, c)
	}
}
