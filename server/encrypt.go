package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"cqld/server/frame"
	"cqld/tlsconfig"
)

// Encryption returns the TLS handshakes of clients so far.
func (s *Server) Encryption() tlsconfig.HandshakeStats { return s.encryption.Stats() }

// handshake performs the TLS handshake, if the connection has one. It runs in the reader, takes at most
// Limits.HandshakeTimeout, and counts towards Limits.HandshakesMax.
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
	// No context is needed: deadlines end the handshake, fail closes the socket, and stop sets an expired deadline.
	err := c.secure.Handshake(context.Background())
	if err != nil {
		// Counted by reason for the metrics.
		reason := c.server.encryption.Fail(err)
		c.refusePlaintext(err)
		// Probes that only connect are frequent and harmless.
		if reason != tlsconfig.ReasonClosed && !c.stopping.Load() {
			c.server.unsafe.log(c.server.log, "TLS handshake with a client failed", "client", c.client.String(),
				"reason", string(reason), "err", err)
		}
		return err
	}
	if state, ok := c.secure.State(); ok {
		c.server.encryption.Complete(state)
	}
	return nil
}

// refusePlaintext answers a request that was not encrypted. err is the error of the handshake. Without an answer,
// drivers wait until they time out, or report only that the connection was closed. The answer is an ERROR envelope in
// the version of the request, and is readable without TLS.
func (c *conn) refusePlaintext(err error) {
	var first tls.RecordHeaderError
	// Only a first record that is not TLS can be an unencrypted request.
	if !errors.As(err, &first) || c.secure.Encrypted() {
		return
	}
	reply, ok := frame.AppendTLSRequired(nil, first.RecordHeader)
	if !ok {
		return
	}
	if _, err := c.net.Write(reply); err == nil { // otherwise the client does not read, or has disconnected
		c.linger()
	}
}

// peer returns the verified certificate of the client, or nil if it has none.
func (c *conn) peer() *x509.Certificate {
	if c.secure == nil {
		return nil
	}
	return c.secure.Peer()
}
