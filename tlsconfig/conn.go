package tlsconfig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// recordHandshake is the first byte of each TLS connection: the type of the record that contains the ClientHello. No
// protocol of this module begins with it.
const recordHandshake = 0x16

// Conn is the server side of a connection that is encrypted or, optionally, not: the client chooses. The first Read, or
// Handshake, performs the handshake. Methods may be called concurrently, as for a net.Conn.
type Conn struct {
	net.Conn // the socket
	// config is shared by all connections of a port.
	config   *tls.Config
	optional bool
	records  recordReader

	handshake sync.Mutex
	// handshake guards done and err. The first attempt decides: a handshake is never repeated.
	done bool
	err  error
	// secure is nil before the first byte, and if the client does not encrypt. Read and Write load it without a lock.
	secure atomic.Pointer[tls.Conn]
	// plain means that the client does not use encryption.
	plain atomic.Bool
	// closed is set by Close, for a concurrent handshake.
	closed atomic.Bool
}

// NewConn returns the server side of a connection with the configuration of Source.Server. If optional is true, the
// first byte determines whether the client encrypts. Nothing is read or written before the first call of a method. The
// Conn owns the socket.
func NewConn(socket net.Conn, config *tls.Config, optional bool) *Conn {
	c := &Conn{Conn: socket, config: config, optional: optional}
	c.records.Conn = socket
	return c
}

// Handshake waits for the handshake, until the connection's deadlines or the end of ctx. It reads no application data.
// If the client does not use encryption, the handshake sends nothing and fails with a tls.RecordHeaderError that
// contains the first bytes received; the caller may then reply without encryption.
func (c *Conn) Handshake(ctx context.Context) error {
	c.handshake.Lock()
	defer c.handshake.Unlock()
	// Concurrent calls wait for the lock, and return the result of the first one.
	if c.done {
		return c.err
	}
	err := c.detect()
	if err == nil && !c.plain.Load() {
		secure := tls.Server(&c.records, c.config)
		c.secure.Store(secure)
		if c.closed.Load() {
			secure.Close() // Close may have missed it
		}
		err = secure.HandshakeContext(ctx)
		// crypto/tls sets Conn only if it has not written anything, so the socket can still be used without encryption.
		if first := (tls.RecordHeaderError{}); errors.As(err, &first) && first.Conn != nil {
			c.plain.Store(true)
			c.secure.Store(nil)
		}
	}
	c.done, c.err = true, err
	return err
}

// detect reads the first byte if encryption is optional. The byte is kept for the first Read.
func (c *Conn) detect() error {
	if !c.optional {
		return nil
	}
	// The socket's deadlines also bound this read.
	if _, err := c.Conn.Read(c.records.first[:]); err != nil {
		return err
	}
	c.records.unread = true
	c.plain.Store(c.records.first[0] != recordHandshake)
	return nil
}

// Read implements net.Conn. It performs the handshake if there was none, and returns the handshake's error on each
// call.
func (c *Conn) Read(b []byte) (int, error) {
	if secure := c.secure.Load(); secure != nil {
		return secure.Read(b)
	}
	if !c.plain.Load() {
		if err := c.Handshake(context.Background()); err != nil {
			return 0, err
		}
		// The handshake has set secure or plain.
		return c.Read(b)
	}
	return c.records.raw(b)
}

// Write implements net.Conn. Like Read, it performs the handshake first.
func (c *Conn) Write(b []byte) (int, error) {
	if secure := c.secure.Load(); secure != nil {
		return secure.Write(b)
	}
	if !c.plain.Load() {
		if err := c.Handshake(context.Background()); err != nil {
			return 0, err
		}
		return c.Write(b)
	}
	return c.Conn.Write(b)
}

// CloseWrite closes the write side. It has no effect if the socket does not support that.
func (c *Conn) CloseWrite() error {
	if secure := c.secure.Load(); secure != nil {
		return secure.CloseWrite()
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn. A Read or Write in progress returns with an error.
func (c *Conn) Close() error {
	// Handshake stores secure before it loads closed, and Close stores closed before it loads secure: one of them
	// closes the TLS connection.
	c.closed.Store(true)
	if secure := c.secure.Load(); secure != nil {
		return secure.Close()
	}
	return c.Conn.Close()
}

// NetConn returns the socket.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// SyscallConn implements syscall.Conn if the socket does.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, syscall.EINVAL
}

// Encrypted reports whether the connection is encrypted. It is meaningful after the handshake.
func (c *Conn) Encrypted() bool { return c.secure.Load() != nil }

// State returns the state of an encrypted connection after the handshake. ok is false before the handshake has
// completed, and for a connection that is not encrypted.
func (c *Conn) State() (state tls.ConnectionState, ok bool) {
	if secure := c.secure.Load(); secure != nil {
		state = secure.ConnectionState()
	}
	return state, state.HandshakeComplete
}

// Peer returns the verified certificate of the client after the handshake, or nil if it has none.
func (c *Conn) Peer() *x509.Certificate {
	// A certificate without verified chains proves nothing.
	if state, ok := c.State(); ok && len(state.VerifiedChains) > 0 {
		return state.PeerCertificates[0]
	}
	return nil
}

// Partial reports whether only a part of an encrypted record has been read. Only the reading goroutine may call it.
func (c *Conn) Partial() bool { return c.Encrypted() && c.records.partial() }

// recordReader is the socket below crypto/tls. It tracks the boundaries of records by counting bytes, because
// crypto/tls buffers incomplete records, which are then visible neither in the socket nor to its caller.
type recordReader struct {
	net.Conn
	// first is the byte that detect has read.
	first [1]byte
	// unread means that first is the next byte of the connection.
	unread bool

	// header of the current record: type, version, and length of the body.
	header [5]byte
	// have is the number of header bytes read so far.
	have int
	// body is the number of unread bytes of the record's body.
	body int
}

// Read implements net.Conn. crypto/tls calls it; connections without encryption use raw.
func (r *recordReader) Read(b []byte) (n int, err error) {
	n, err = r.raw(b)
	r.follow(b[:n])
	return n, err
}

// raw reads without tracking records. The byte that detect has read is returned first, alone.
func (r *recordReader) raw(b []byte) (n int, err error) {
	if r.unread && len(b) > 0 {
		r.unread = false
		b[0] = r.first[0]
		return 1, nil
	}
	return r.Conn.Read(b)
}

// follow counts the bytes of b as parts of records: a header of 5 bytes, whose last two are the length of the body, and
// the body.
func (r *recordReader) follow(b []byte) {
	for len(b) > 0 {
		if r.body > 0 {
			n := min(r.body, len(b))
			r.body -= n
			// The body needs no copy.
			b = b[n:]
			continue
		}
		n := copy(r.header[r.have:], b)
		b = b[n:]
		// The header may have arrived in parts.
		if r.have += n; r.have == len(r.header) {
			r.have, r.body = 0, int(r.header[3])<<8|int(r.header[4])
		}
	}
}

// partial reports whether the bytes so far end inside a record.
func (r *recordReader) partial() bool { return r.have > 0 || r.body > 0 }
