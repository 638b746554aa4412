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
	config   *tls.Config
	optional bool
	records  recordReader

	handshake sync.Mutex
	done      bool // guarded by handshake
	err       error
	secure    atomic.Pointer[tls.Conn] // nil before the first byte, and if the client does not encrypt
	plain     atomic.Bool              // the client does not encrypt
	closed    atomic.Bool
}

// NewConn returns the server side of a connection with the configuration of Source.Server. If optional is true, the
// first byte determines whether the client encrypts.
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
		if first := (tls.RecordHeaderError{}); errors.As(err, &first) && first.Conn != nil {
			c.plain.Store(true)
			c.secure.Store(nil)
		}
	}
	c.done, c.err = true, err
	return err
}

// detect reads the first byte if the client may choose.
func (c *Conn) detect() error {
	if !c.optional {
		return nil
	}
	if _, err := c.Conn.Read(c.records.first[:]); err != nil {
		return err
	}
	c.records.unread = true
	c.plain.Store(c.records.first[0] != recordHandshake)
	return nil
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if secure := c.secure.Load(); secure != nil {
		return secure.Read(b)
	}
	if !c.plain.Load() {
		if err := c.Handshake(context.Background()); err != nil {
			return 0, err
		}
		return c.Read(b)
	}
	return c.records.raw(b)
}

// Write implements net.Conn.
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

// CloseWrite ends the output.
func (c *Conn) CloseWrite() error {
	if secure := c.secure.Load(); secure != nil {
		return secure.CloseWrite()
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *Conn) Close() error {
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

// State returns the state of an encrypted connection after the handshake.
func (c *Conn) State() (state tls.ConnectionState, ok bool) {
	if secure := c.secure.Load(); secure != nil {
		state = secure.ConnectionState()
	}
	return state, state.HandshakeComplete
}

// Peer returns the verified certificate of the client after the handshake, or nil if it has none.
func (c *Conn) Peer() *x509.Certificate {
	if state, ok := c.State(); ok && len(state.VerifiedChains) > 0 {
		return state.PeerCertificates[0]
	}
	return nil
}

// Partial reports whether a part of an encrypted record has been read, so that more of it must follow. It may be called
// by the goroutine that reads.
func (c *Conn) Partial() bool { return c.Encrypted() && c.records.partial() }

// recordReader is the socket below crypto/tls. It follows the boundaries of records: crypto/tls reads incomplete ones
// into memory of its own, where they are visible neither in the socket nor to its caller.
type recordReader struct {
	net.Conn
	first  [1]byte
	unread bool // first was read by detect and is the next byte

	header [5]byte // of a record: type, version, length
	have   int     // bytes of header
	body   int     // bytes of the record that are still to be read
}

// Read implements net.Conn.
func (r *recordReader) Read(b []byte) (n int, err error) {
	n, err = r.raw(b)
	r.follow(b[:n])
	return n, err
}

// raw reads without following records.
func (r *recordReader) raw(b []byte) (n int, err error) {
	if r.unread && len(b) > 0 {
		r.unread = false
		b[0] = r.first[0]
		return 1, nil
	}
	return r.Conn.Read(b)
}

func (r *recordReader) follow(b []byte) {
	for len(b) > 0 {
		if r.body > 0 {
			n := min(r.body, len(b))
			r.body -= n
			b = b[n:]
			continue
		}
		n := copy(r.header[r.have:], b)
		b = b[n:]
		if r.have += n; r.have == len(r.header) {
			r.have, r.body = 0, int(r.header[3])<<8|int(r.header[4])
		}
	}
}

func (r *recordReader) partial() bool { return r.have > 0 || r.body > 0 }
