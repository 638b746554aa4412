package messaging

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// Security decides which connections between nodes are encrypted, and authenticates their peers. A StreamTransport
// without a Security opens and accepts unencrypted connections only. The methods are safe for concurrent use and are
// called for each connection, so that a new certificate applies to the connections that are opened after it was loaded.
//
//	accepted ──first byte begins TLS──▶ handshake ──▶ Authenticate ──▶ hello
//	    └──otherwise, AcceptsPlain──────────────────────────────────────▶ hello
//
// No byte of the internode protocol is sent before Authenticate has returned nil.
type Security interface {
	// Server returns the configuration for a connection that a peer opened. It requires a certificate of the peer.
	Server() *tls.Config
	// Client returns the configuration for a connection to the node at an address.
	Client(to netip.AddrPort) *tls.Config
	// Encrypts reports whether a connection to the node at an address is encrypted at first. If it is not, and the node
	// ends the connection without an answer, the connection is opened again with encryption: the node may not know yet
	// that this node needs none.
	Encrypts(to netip.AddrPort) bool
	// FallsBack reports whether a connection to the node at an address may be unencrypted if that node does not support
	// TLS.
	FallsBack(to netip.AddrPort) bool
	// AcceptsPlain reports whether a peer at an address may open unencrypted connections.
	AcceptsPlain(from netip.Addr) bool
	// Authenticate returns nil if the certificate of a connection's peer belongs to the node at an address. It is
	// called after every handshake, on both sides. It may resolve names until ctx ends.
	Authenticate(ctx context.Context, state tls.ConnectionState, peer netip.Addr) error
	// Revoked returns an error if the certificate of a connection's peer has been revoked.
	Revoked(state tls.ConnectionState) error
	// Reason returns a short word for the cause of a failed handshake, to count failures by it. Empty means unknown.
	Reason(err error) string
}

// SecurityError is the error of a connection that was not encrypted or authenticated as required.
type SecurityError struct {
	Reason string // a word for counters: a result of Security.Reason, or one of the constants
	Err    error
}

// Error returns the cause.
func (e *SecurityError) Error() string { return "messaging: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *SecurityError) Unwrap() error { return e.Err }

// Reasons that the transport itself detects.
const (
	ReasonPlaintext = "plaintext" // the peer does not use TLS, which is required
	ReasonNoTLS     = "no_tls"    // the peer uses TLS, for which this node has no certificate
	ReasonTimeout   = "timeout"   // the handshake did not end in time
	ReasonBytes     = "bytes"     // the handshake exceeded handshakeBytesTLS
	ReasonBusy      = "busy"      // too many handshakes of strangers are in progress
	ReasonRefused   = "refused"   // the peer refuses the certificate of this node
	ReasonClosed    = "closed"    // the peer ended the connection during the handshake
	ReasonProtocol  = "protocol"  // anything else: versions, cipher suites, malformed messages
)

var (
	errPlaintext = errors.New("the peer does not use TLS, which server_encryption_options require")
	errNoTLS     = errors.New("the peer uses TLS, but server_encryption_options of this node have no certificate")
	errBusy      = errors.New("too many TLS handshakes of unknown peers")
	errEarly     = errors.New("too many bytes before the end of the handshake")
	errNotTLS    = errors.New("the peer does not support TLS")
)

// recordHandshake is the first byte of a TLS connection; the internode protocol begins with the first byte of
// handshakeMagic.
const recordHandshake = 22

// secure authenticates the peer of an inbound connection, and returns the connection on which the hello follows. A
// stranger that does not complete the handshake has received nothing but the certificate of this node.
func (t *StreamTransport) secure(in *inboundConn) (net.Conn, error) {
	// The deadline covers TLS and the hello; accept removes it.
	if err := in.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	first, err := in.peek()
	if err != nil {
		return nil, err
	}
	s := t.opts.Security
	switch {
	// No answer is sent: the peer expects TLS, and would not understand a refusal.
	case s == nil && first == recordHandshake:
		return nil, &SecurityError{ReasonNoTLS, errNoTLS}
	case s == nil:
		return in, nil
	case first != recordHandshake && s.AcceptsPlain(in.addr):
		return in, nil
	case first != recordHandshake:
		return nil, &SecurityError{ReasonPlaintext, errPlaintext}
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	leave, err := t.gate.enter(ctx, t.conns.memberAddr(in.addr))
	if err != nil {
		return nil, &SecurityError{ReasonBusy, err}
	}
	defer leave()
	conn := tls.Server(newBuffered(in), s.Server())
	if err := t.authenticate(ctx, conn, in.addr); err != nil {
		if in.exceeded {
			return nil, &SecurityError{ReasonBytes, errEarly}
		}
		return nil, err
	}
	// secured is set only now, because CloseRevoked examines certificates that were verified.
	in.secured.Store(conn)
	return conn, nil
}

// authenticate completes the TLS handshake and checks the peer's certificate.
func (t *StreamTransport) authenticate(ctx context.Context, conn *tls.Conn, peer netip.Addr) error {
	err := conn.HandshakeContext(ctx)
	if err == nil {
		err = t.opts.Security.Authenticate(ctx, conn.ConnectionState(), peer)
	}
	if err == nil {
		return nil
	}
	return &SecurityError{t.reason(err), fmt.Errorf("TLS with %s: %w", peer, err)}
}

// reason returns a word for the cause of a failed TLS handshake.
func (t *StreamTransport) reason(err error) string {
	if r := t.opts.Security.Reason(err); r != "" {
		return r
	}
	var network net.Error
	switch {
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return ReasonTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET):
		return ReasonClosed
	}
	return ReasonProtocol
}

// secureClient encrypts a connection that this node opened, if its address requires that, and authenticates the peer.
// The error wraps errNotTLS if the peer ended the connection without an answer, as a node without TLS does.
func (t *StreamTransport) secureClient(ctx context.Context, raw net.Conn, config *tls.Config,
	to netip.AddrPort) (net.Conn, error) {
	counted := &firstBytes{Conn: raw}
	conn := tls.Client(newBuffered(counted), config)
	err := t.authenticate(ctx, conn, to.Addr().Unmap())
	if err == nil {
		return conn, nil
	}
	// A peer with TLS would have answered, be it with an alert.
	if !counted.received && ctx.Err() == nil {
		return nil, &SecurityError{ReasonNoTLS, fmt.Errorf("%w: %w", errNotTLS, err)}
	}
	return nil, err
}

// isSecurity reports whether a connection failed because of TLS, or the lack of it.
func isSecurity(err error) bool {
	var s *SecurityError
	return errors.As(err, &s)
}

// alerted describes an error that follows the handshake: with TLS 1.3, a peer that refuses this node's certificate
// reports that afterwards.
func alerted(err error) error {
	// crypto/tls reports an alert of the peer this way.
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return &SecurityError{ReasonRefused, fmt.Errorf("the peer refused the certificate of this node: %w", err)}
	}
	return err
}

// unanswered reports whether a peer ended an unencrypted connection without an answer to the hello, like one that
// requires encryption.
func unanswered(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// firstBytes records whether its peer has sent a byte.
type firstBytes struct {
	net.Conn
	received bool
}

// Read implements net.Conn.
func (c *firstBytes) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received = c.received || n > 0
	return n, err
}

// buffered is a connection that reads ahead: crypto/tls reads the header of each record with a system call of its own,
// and the first byte of an inbound connection is read before its protocol is known.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

// newBuffered returns c with a buffer for reading.
func newBuffered(c net.Conn) *buffered { return &buffered{c, bufio.NewReaderSize(c, receiveBufferTLS)} }

// Read implements net.Conn.
func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }
