package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"sync/atomic"
	"time"

	"cqld/tlsconfig"
)

// encrypted counts the TLS handshakes of clients.
type encrypted struct {
	completed, resumed atomic.Int64
	late               repeated // limits the logs about failures

	mu       sync.Mutex
	failures map[tlsconfig.Reason]int64
}

// EncryptionStats are the TLS handshakes of clients.
type EncryptionStats struct {
	Completed int64 // including those that resumed a session
	Resumed   int64
	Failures  map[tlsconfig.Reason]int64
}

// Encryption returns the TLS handshakes of clients so far.
func (s *Server) Encryption() EncryptionStats {
	e := &s.encrypted
	stats := EncryptionStats{Completed: e.completed.Load(), Resumed: e.resumed.Load(), Failures: map[tlsconfig.Reason]int64{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	for reason, n := range e.failures {
		stats.Failures[reason] = n
	}
	return stats
}

func (e *encrypted) failed(reason tlsconfig.Reason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failures == nil {
		e.failures = map[tlsconfig.Reason]int64{}
	}
	e.failures[reason]++
}

// encrypt makes the connection begin with a TLS handshake, or allow one if optional.
func (c *conn) encrypt(config *tls.Config, optional bool) {
	c.secure = tlsconfig.NewConn(c.net, config, optional)
	c.net = c.secure
}

// handshake performs the TLS handshake, if the connection has one. It runs on the connection's own goroutine, within the
// time of Limits.HandshakeTimeout and as one of Limits.HandshakesMax.
func (c *conn) handshake() error {
	if c.secure == nil {
		return nil
	}
	// The handshake also writes. A client that does not read must not hold the connection beyond the same time.
	if err := c.net.SetWriteDeadline(time.Now().Add(c.server.limits.HandshakeTimeout)); err != nil {
		return err
	}
	if c.stopping.Load() { // stop may have set its deadline before
		return nil
	}
	e := &c.server.encrypted
	err := c.secure.Handshake(context.Background()) // fail and stop interrupt it by closing the socket and by the deadline
	if err != nil {
		reason := tlsconfig.ReasonOf(err)
		e.failed(reason)
		if !c.stopping.Load() {
			e.late.log(c.server.log, "TLS handshake with a client failed", "client", c.client.String(), "reason", string(reason), "err", err)
		}
		return err
	}
	if state, ok := c.secure.State(); ok {
		e.completed.Add(1)
		if state.DidResume {
			e.resumed.Add(1)
		}
	}
	return nil
}

// peer returns the verified certificate of the client, or nil if it has none.
func (c *conn) peer() *x509.Certificate {
	if c.secure == nil {
		return nil
	}
	return c.secure.Peer()
}
