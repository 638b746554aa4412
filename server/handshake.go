package server

import (
	"container/list"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// handshakes tracks the connections that are not READY, oldest first. A client needs only a few round trips until
// READY, so a connection that is closed in favor of others never gets there: clients that only connect do not delay
// others. Without the bound, a peer that opens connections and sends nothing could use up ConnectionsMax; with it, it
// can only displace other clients that have not authenticated.
type handshakes struct {
	max    int
	closed atomic.Int64 // in favor of others

	mu     sync.Mutex
	order  *list.List // of *conn
	places map[*conn]*list.Element
}

// newHandshakes returns an empty list for up to most connections.
func newHandshakes(most int) *handshakes {
	return &handshakes{max: most, order: list.New(), places: map[*conn]*list.Element{}}
}

var errManyHandshakes = errors.New("too many unauthenticated connections; closing the oldest")

// begin adds a connection, and closes the oldest if there are too many.
func (h *handshakes) begin(c *conn) {
	h.mu.Lock()
	h.places[c] = h.order.PushBack(c)
	var oldest *conn
	if h.order.Len() > h.max {
		oldest = h.order.Front().Value.(*conn)
		h.removeLocked(oldest)
	}
	h.mu.Unlock()
	if oldest != nil {
		h.closed.Add(1)
		oldest.server.late.log(oldest.server.log, "a client connection is closed", "client", oldest.client.String(),
			"reason", errManyHandshakes)
		// Without the lock, because fail ends the connection, which calls end.
		oldest.fail(errManyHandshakes)
	}
}

// end removes a connection that is READY or has ended.
func (h *handshakes) end(c *conn) {
	h.mu.Lock()
	h.removeLocked(c)
	h.mu.Unlock()
}

// removeLocked removes a connection, if it is in the list. h.mu is held.
func (h *handshakes) removeLocked(c *conn) {
	if place := h.places[c]; place != nil {
		h.order.Remove(place)
		delete(h.places, c)
	}
}

// repeated logs events that clients can cause often: at most once a second, with the number of events since the last
// message. It is safe for concurrent use and never blocks.
type repeated struct {
	last  atomic.Int64 // seconds
	count atomic.Int64
}

// log counts an event, and logs it if none was logged in this second.
func (r *repeated) log(log *slog.Logger, message string, args ...any) {
	r.count.Add(1)
	if now := time.Now().Unix(); r.last.Swap(now) != now {
		log.Info(message, append(args, "times", r.count.Swap(0))...)
	}
}
