package azuretables

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// guests are the connections of which no request was authorized yet, oldest first: a part of all connections at most.
// The oldest is closed for a further one, so that those which never send a request, or not all of it, delay no others. It
// counts the others.
type guests struct {
	max, knownMax int
	closed        atomic.Int64 // for others

	mu     sync.Mutex
	known  int
	order  *list.List // of *connection
	places map[*connection]*list.Element
}

// newGuests makes the list for so many connections in all.
func newGuests(connections int) *guests {
	return &guests{max: max(1, connections/guestsShare), knownMax: connections, order: list.New(), places: map[*connection]*list.Element{}}
}

// enter adds a connection, and closes the oldest when there are too many.
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

// promote makes a guest known; false when there are too many that are.
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

// count is the connections that are known.
func (g *guests) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known
}

// waiting is the connections that are not known.
func (g *guests) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.order.Len()
}

// leave takes out a connection that has ended.
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
