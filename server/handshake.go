package server

import (
	"container/list"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// handshakes are the connections that are not READY, oldest first. A client is
// READY within some round trips, so that those which are closed for others are
// such as never will be: a client that only connects delays no other.
type handshakes struct {
	max    int
	closed atomic.Int64 // for others

	mu     sync.Mutex
	order  *list.List // of *conn
	places map[*conn]*list.Element
}

func newHandshakes(most int) *handshakes {
	return &handshakes{max: most, order: list.New(), places: map[*conn]*list.Element{}}
}

var errManyHandshakes = errors.New("too many unauthenticated connections; closing the oldest")

// begin adds a connection, and closes the oldest when there are too many.
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
		oldest.server.late.log(oldest.server.log, "a client connection is closed", "client", oldest.client.String(), "reason", errManyHandshakes)
		oldest.fail(errManyHandshakes)
	}
}

// end takes out a connection that is READY or has ended.
func (h *handshakes) end(c *conn) {
	h.mu.Lock()
	h.removeLocked(c)
	h.mu.Unlock()
}

func (h *handshakes) removeLocked(c *conn) {
	if place := h.places[c]; place != nil {
		h.order.Remove(place)
		delete(h.places, c)
	}
}

// repeated logs what clients can make happen often: once a second at most, with
// how often it happened since the last time.
type repeated struct {
	last  atomic.Int64 // seconds
	count atomic.Int64
}

func (r *repeated) log(log *slog.Logger, message string, args ...any) {
	r.count.Add(1)
	if now := time.Now().Unix(); r.last.Swap(now) != now {
		log.Info(message, append(args, "times", r.count.Swap(0))...)
	}
}
