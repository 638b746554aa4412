package health

import (
	"net"
	"sync"
)

// newestListener keeps the newest connectionsMax connections and closes older ones. mu is held for the list only, never
// during a system call.
type newestListener struct {
	net.Listener
	mu struct {
		sync.Mutex
		open []*conn // the oldest first
	}
}

func newest(l net.Listener) *newestListener { return &newestListener{Listener: l} }

// conn is a connection of a newestListener.
type conn struct {
	net.Conn
	l *newestListener
}

// Accept implements net.Listener.
func (l *newestListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{accepted, l}
	// The list contains the oldest until its Close removes it, so it may exceed connectionsMax by one for that time.
	if oldest := l.add(c); oldest != nil {
		_ = oldest.Close() // its client waits for an answer that it did not request in time
	}
	return c, nil
}

// add records a connection, and returns the one that it replaces.
func (l *newestListener) add(c *conn) (oldest *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.open = append(l.mu.open, c)
	if len(l.mu.open) > connectionsMax {
		oldest = l.mu.open[0]
	}
	return oldest
}

// Close implements net.Conn. net/http may call it more than once; removing twice does nothing.
func (c *conn) Close() error {
	c.l.remove(c)
	return c.Conn.Close()
}

func (l *newestListener) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, o := range l.mu.open {
		if o == c {
			l.mu.open = append(l.mu.open[:i], l.mu.open[i+1:]...)
			return
		}
	}
}
