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

// Conn is the server side of a connection that is encrypted, or that may be if the client wants. Its first Read, or
// Handshake, performs the handshake. The methods may be called concurrently, like those of a net.Conn.
type Conn struct {
	net.Conn // the socket
	// config is shared by all connections of a port.
	config   *tls.Config
	optional bool
	records  recordReader

	handshake sync.Mutex
	// done and err are guarded by handshake. The first attempt decides: a handshake is never repeated.
	done bool
	err  error
	// secure is nil before the first byte, and if the client does not encrypt. Read and Write load it without a lock.
	secure atomic.Pointer[tls.Conn]
	// plain means that the client does not encrypt.
	plain atomic.Bool
	// closed is set by Close, for a handshake that begins at the same time.
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

// Handshake waits for the handshake, until the connection's deadlines or the end of ctx. It reads no data of the client
// beyond it. A client that does not encrypt gets no answer and costs one read; after the error, a tls.RecordHeaderError
// with the beginning of what the client sent, the caller may send a reply without encryption.
func (c *Conn) Handshake(ctx context.Context) error {
	c.handshake.Lock()
	defer c.handshake.Unlock()
	// Concurrent calls wait for the lock, and have the result of the first one.
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
		// crypto/tls sets Conn only if it has not written anything. The socket is then still usable without encryption.
		if first := (tls.RecordHeaderError{}); errors.As(err, &first) && first.Conn != nil {
			c.plain.Store(true)
			c.secure.Store(nil)
		}
	}
	c.done, c.err = true, err
	return err
}

// detect reads the first byte if the client may choose. The byte is kept for the first Read.
func (c *Conn) detect() error {
	if !c.optional {
		return nil
	}
	// The deadlines of the socket bound this read like the handshake.
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

// Write implements net.Conn. Like Read, it begins with the handshake.
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

// CloseWrite ends the output. It has no effect if the socket cannot do so.
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
	// Without chains the certificate was not verified, and proves nothing.
	if state, ok := c.State(); ok && len(state.VerifiedChains) > 0 {
		return state.PeerCertificates[0]
	}
	return nil
}

// Partial reports whether a part of an encrypted record has been read, so that more of it must follow. It may be called
// by the goroutine that reads.
func (c *Conn) Partial() bool { return c.Encrypted() && c.records.partial() }

// recordReader is the socket below crypto/tls. It follows the boundaries of records: crypto/tls reads incomplete ones
// into memory of its own, where they are visible neither in the socket nor to its caller. It does not interpret them:
// it only counts bytes.
type recordReader struct {
	net.Conn
	// first is the byte that detect has read.
	first [1]byte
	// unread means that first is the next byte of the connection.
	unread bool

	// header of the current record: type, version, and length of the body.
	header [5]byte
	// have is the number of bytes of header that were read.
	have int
	// body is the number of bytes of the record that are still to be read.
	body int
}

// Read implements net.Conn. crypto/tls calls it; connections without encryption use raw.
func (r *recordReader) Read(b []byte) (n int, err error) {
	n, err = r.raw(b)
	r.follow(b[:n])
	return n, err
}

// raw reads without following records. The byte that detect has read comes first, alone.
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
			// The body of the record needs no copy.
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
