package cqlclient

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// Opcodes of the native protocol. Section 2.4 of the specification of v4; they are the same in v5.
const (
	opError        = 0x00
	opStartup      = 0x01
	opReady        = 0x02
	opOptions      = 0x05
	opSupported    = 0x06
	opQuery        = 0x07
	opAuthenticate = 0x03
	opResult       = 0x08
	opPrepare      = 0x09
	opExecute      = 0x0A
	opRegister     = 0x0B
	opEvent        = 0x0C
	opBatch        = 0x0D
	opAuthResponse = 0x0F
	opAuthSuccess  = 0x10
)

// Header flags. Of the envelope. Compression (0x01) is never requested.
const (
	flagTracing = 0x02
	flagPayload = 0x04
	flagWarning = 0x08
)

// Conn is one connection; one request at a time. It is not safe for concurrent use. After an error of the network its
// state is undefined, so the caller closes it.
type Conn struct {
	Version byte          // 4 or 5
	Timeout time.Duration // for one request; default 30 s

	// Encrypted or not; see LoginOn.
	sock net.Conn
	// Buffered. From STARTUP on in v5, it removes the segments.
	in io.Reader
	// v5 segments are used, after STARTUP.
	framed bool
	// Of the last request. Each request has another one, so that a late answer is noticed.
	stream uint16
}

// Dial connects and starts the protocol in the given version. version is 4 or 5. The server must not require
// authentication.
func Dial(address string, version byte) (*Conn, error) { return DialAs(address, version, "", "") }

// DialAs is Dial, and logs in with a user name and a password if the server asks for them. Credentials are sent only if
// the server asks for them. Connecting takes at most 5 s, and the login as long as two requests.
func DialAs(address string, version byte, user, password string) (*Conn, error) {
	sock, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return LoginOn(sock, version, user, password)
}

// LoginOn is DialAs for a connection that exists, such as an encrypted one. It closes the connection if it fails. sock
// belongs to the Conn afterwards.
func LoginOn(sock net.Conn, version byte, user, password string) (*Conn, error) {
	c := &Conn{Version: version, Timeout: 30 * time.Second, sock: sock, in: bufio.NewReader(sock)}
	// A map of two entries. [string map]: the driver name distinguishes these connections in system_views.clients.
	body := appendShort(nil, 2)
	for _, s := range []string{"CQL_VERSION", "3.0.0", "DRIVER_NAME", "cqld-transcripts"} {
		body = appendString(body, s)
	}
	// STARTUP and its answer are not in segments, in v5 too.
	f, err := c.roundTrip(opStartup, 0, body)
	if err == nil && f.opcode == opError {
		err = decodeError(f.body(), version)
	} else if err == nil && f.opcode != opReady && f.opcode != opAuthenticate {
		err = fmt.Errorf("cqlclient: STARTUP answered with opcode %#x", f.opcode)
	}
	if err == nil && version >= 5 {
		c.framed = true
		// The reader below keeps what it has buffered. Bytes of the first segments may have arrived with the answer to
		// STARTUP, and are in the old reader.
		c.in = bufio.NewReader(&segmentReader{src: c.in})
	}
	if err == nil && f.opcode == opAuthenticate {
		err = c.logIn(user, password)
	}
	if err != nil {
		sock.Close()
		return nil, err
	}
	return c, nil
}

// logIn answers AUTHENTICATE with a token of SASL PLAIN. The authorization identity before the first zero byte is
// empty: the server takes the user name for it. RFC 4616.
func (c *Conn) logIn(user, password string) error {
	token := "\x00" + user + "\x00" + password
	f, err := c.roundTrip(opAuthResponse, 0, append(appendInt(nil, len(token)), token...))
	switch {
	case err != nil:
		return err
	case f.opcode == opError:
		return decodeError(f.body(), c.Version)
	case f.opcode != opAuthSuccess:
		return fmt.Errorf("cqlclient: AUTH_RESPONSE answered with opcode %#x", f.opcode)
	}
	return nil
}

// Close ends the connection. The server ends a running request of the connection by itself.
func (c *Conn) Close() error { return c.sock.Close() }

// frame is one received envelope. The header has nine bytes: version, flags, stream (2), opcode, length (4),
// big-endian. Its layout:
//
//	0         1       2        4        5        9
//	│ version │ flags │ stream │ opcode │ length │ body …
type frame struct {
	version, flags, opcode byte
	stream                 int16
	data                   []byte
}

// body returns a new reader of the whole body.
func (f *frame) body() *reader { return &reader{b: f.data} }

// roundTrip sends one request and waits for its answer; it discards events. The deadline covers sending and receiving.
// A request that timed out leaves its answer in the connection: the next roundTrip reports it as an answer on a wrong
// stream.
func (c *Conn) roundTrip(opcode, flags byte, body []byte) (*frame, error) {
	// Streams of requests are not negative.
	c.stream = (c.stream + 1) & 0x7fff
	// The version without the high bit marks a request.
	env := []byte{c.Version, flags, byte(c.stream >> 8), byte(c.stream), opcode}
	env = append(appendInt(env, len(body)), body...)
	if c.framed {
		env = appendSegments(nil, env)
	}
	if err := c.sock.SetDeadline(time.Now().Add(c.Timeout)); err != nil {
		return nil, err
	}
	if _, err := c.sock.Write(env); err != nil {
		return nil, err
	}
	for {
		f, err := c.readFrame()
		if err != nil {
			return nil, err
		}
		if f.stream == int16(c.stream) {
			return f, nil
		}
		// Events have the stream -1, and are dropped here.
		if f.stream >= 0 {
			return nil, fmt.Errorf("cqlclient: answer on stream %d to a request on stream %d", f.stream, c.stream)
		}
	}
}

// readFrame reads one envelope. An error of the server may be in another version than the request. The answer to a
// version that a server does not support has a version that it does support.
func (c *Conn) readFrame() (*frame, error) {
	var h [9]byte
	if _, err := io.ReadFull(c.in, h[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(h[5:])
	// The limit of the specification for a frame, 256 MiB.
	if n > 256<<20 {
		return nil, fmt.Errorf("cqlclient: a body of %d bytes", n)
	}
	f := &frame{version: h[0], flags: h[1], stream: int16(binary.BigEndian.Uint16(h[2:])), opcode: h[4],
		data: make([]byte, n)}
	if f.version != c.Version|0x80 && f.opcode != opError {
		return nil, fmt.Errorf("cqlclient: answer in version %#x", f.version)
	}
	_, err := io.ReadFull(c.in, f.data)
	return f, err
}
