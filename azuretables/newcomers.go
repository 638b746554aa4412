package azuretables

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// newcomers lists the connections without an authorized request so far, oldest first, and counts the others. They are
// limited to a part of all connections. A further one closes the oldest, so that connections that never send a complete
// request do not keep other clients from connecting. It is safe for concurrent use.
//
// Known connections are not listed, because none of them is ever closed for another.
type newcomers struct {
	max, knownMax int          // limits of newcomers and of known connections
	closed        atomic.Int64 // connections closed to admit another one
	refused       atomic.Int64 // connections refused because of perAddress
	refusedKnown  atomic.Int64 // requests refused because knownMax is reached
	perAddress    int          // 0 means no bound

	mu     sync.Mutex
	known  int                           // number of known connections
	order  *list.List                    // of *connection
	places map[*connection]*list.Element // the element of each newcomer in order
	// addresses has the number of connections of each address, if they are bounded.
	addresses map[netip.Addr]int
}

// newNewcomerList returns an empty list for a server with the given maximum of connections. At least one newcomer is
// admitted, or no client could ever connect. connections is the limit of known connections.
func newNewcomerList(connections, perAddress int) *newcomers {
	return &newcomers{max: max(1, connections/newcomersShare), knownMax: connections, perAddress: perAddress,
		order:  list.New(),
		places: map[*connection]*list.Element{}, addresses: map[netip.Addr]int{}}
}

// enter adds a connection and closes the oldest one if the list is full. It returns false if the client's address has
// too many connections. The connection that it closes may have sent a part of a request.
func (g *newcomers) enter(c *connection) bool {
	g.mu.Lock()
	// Known connections count as well: the bound is on all connections of an address.
	if g.perAddress > 0 {
		addr := remoteAddr(c)
		if g.addresses[addr] >= g.perAddress {
			g.mu.Unlock()
			g.refused.Add(1)
			return false
		}
		g.addresses[addr]++
		// Only a connection that was counted is counted down, once (leave).
		c.counted = addr
	}
	g.places[c] = g.order.PushBack(c)
	var oldest *connection
	if g.order.Len() > g.max {
		oldest = g.order.Front().Value.(*connection)
		g.removeLocked(oldest)
	}
	g.mu.Unlock()
	// The connection is closed outside the lock, because Close may take time, and ends in leave, which acquires the
	// lock.
	if oldest != nil {
		g.closed.Add(1)
		oldest.Close()
	}
	return true
}

// remoteAddr returns the address of a connection's client. Every connection without a TCP address, as in tests, counts
// for 0.0.0.0. Unmap makes an IPv4 client one address on both kinds of sockets.
func remoteAddr(c *connection) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.IPv4Unspecified()
}

// promote marks a newcomer as known. It returns false if the maximum of known connections is reached. c was entered
// before.
func (g *newcomers) promote(c *connection) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	// The connection stays in the list of newcomers, and its client may try again.
	if g.known >= g.knownMax {
		g.refusedKnown.Add(1)
		return false
	}
	g.known++
	g.removeLocked(c)
	return true
}

// count returns the number of known connections. During a drain, it falls to zero.
func (g *newcomers) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known
}

// waiting returns the number of connections that are not known yet. They may be idle, or in a handshake.
func (g *newcomers) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.order.Len()
}

// leave removes a connection that has ended. It may be called for a connection that enter has closed to make room, but
// only once per connection. It corrects all counts.
func (g *newcomers) leave(c *connection) {
	g.mu.Lock()
	defer g.mu.Unlock()
	// known is set after promote, on the connection's goroutine, which has ended.
	if c.known.Swap(false) {
		g.known--
	}
	if c.counted.IsValid() {
		// Addresses without connections take no memory.
		if g.addresses[c.counted]--; g.addresses[c.counted] <= 0 {
			delete(g.addresses, c.counted)
		}
		c.counted = netip.Addr{}
	}
	g.removeLocked(c)
}

// removeLocked removes a connection from the list; it may have been removed before. mu is held.
func (g *newcomers) removeLocked(c *connection) {
	if place := g.places[c]; place != nil {
		g.order.Remove(place)
		delete(g.places, c)
	}
}
