package messaging

import (
	"crypto/tls"
	"net"
)

// Connections counts the connections of a transport. A connection of a peer counts from its acceptance, and one to a
// peer while it can be used.
type Connections struct {
	FromEncrypted, FromPlain int // that peers opened
	ToEncrypted, ToPlain     int // that this node opened
}

// Connections returns the number of open connections. The two directions are counted one after the other, so the sum
// is not an exact snapshot.
func (t *StreamTransport) Connections() (c Connections) {
	t.conns.mu.Lock()
	for in := range t.conns.open {
		if in.secured.Load() != nil {
			c.FromEncrypted++
		} else {
			c.FromPlain++
		}
	}
	t.conns.mu.Unlock()
	// conns.mu is released first, because present acquires another lock.
	for _, p := range t.present() {
		switch l := p.connected(); {
		case l == nil:
		case l.secured() != nil:
			c.ToEncrypted++
		default:
			c.ToPlain++
		}
	}
	return c
}

// CloseRevoked closes the connections whose peers have certificates that were revoked after the connection was opened.
// It is called when revocation lists have changed.
func (t *StreamTransport) CloseRevoked() {
	if t.opts.Security == nil {
		return
	}
	for _, c := range t.encrypted() {
		if err := t.opts.Security.Revoked(c.ConnectionState()); err != nil {
			t.log.Warn("internode connection closed", "peer", c.RemoteAddr(), "err", err)
			// Not c.Close, which would send an alert and could wait for the peer.
			_ = c.NetConn().Close() // it is closed even after an error
		}
	}
}

// encrypted returns all connections with TLS.
func (t *StreamTransport) encrypted() (all []*tls.Conn) {
	t.conns.mu.Lock()
	for in := range t.conns.open {
		if c := in.secured.Load(); c != nil {
			all = append(all, c)
		}
	}
	t.conns.mu.Unlock()
	for _, p := range t.present() {
		if l := p.connected(); l != nil && l.secured() != nil {
			all = append(all, l.secured())
		}
	}
	return all
}

// connected returns the link to the peer; nil while the peer is not connected.
func (p *peer) connected() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.link
}

// secured returns the TLS connection of the link; nil if it has none.
func (l *link) secured() *tls.Conn {
	c, _ := net.Conn(l.conn).(*tls.Conn)
	return c
}
