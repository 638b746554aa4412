package server

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"cqld/internal/await"
	"cqld/internal/wire"
	"cqld/query"
	"cqld/request"
	"cqld/ring"
	"cqld/server/frame"
)

// fake is a Processor whose statements behave as the test specifies.
type fake struct {
	query   func(r *request.Request, s *query.Session, text string, p *query.Params) (*query.Result, error)
	execute func(r *request.Request, s *query.Session, id []byte, p *query.Params) (*query.Result, error)
	batch   func(r *request.Request, s *query.Session, p *query.BatchParams) (*query.Result, error)
}

func void() (*query.Result, error) { return &query.Result{Kind: query.KindVoid}, nil }

func (f *fake) Query(r *request.Request, s *query.Session, text string, p *query.Params) (*query.Result, error) {
	if f.query == nil {
		return void()
	}
	return f.query(r, s, text, p)
}

func (f *fake) Prepare(*request.Request, *query.Session, string, string) (*query.Result, error) {
	return &query.Result{Kind: query.KindPrepared, Prepared: &query.PreparedInfo{ID: []byte{1, 2},
		Result: &query.Metadata{ID: []byte{3}}}}, nil
}

func (f *fake) Execute(r *request.Request, s *query.Session, id []byte, p *query.Params) (*query.Result, error) {
	if f.execute == nil {
		return void()
	}
	return f.execute(r, s, id, p)
}

func (f *fake) Batch(r *request.Request, s *query.Session, p *query.BatchParams) (*query.Result, error) {
	if f.batch == nil {
		return void()
	}
	return f.batch(r, s, p)
}

// start serves on a loopback port until the test ends, which fails if bytes
// of a request are still accounted for by then.
func start(tb testing.TB, o Options) (*Server, string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return serve(tb, o, l), l.Addr().String()
}

// serve is start with a listener.
func serve(tb testing.TB, o Options, l net.Listener) *Server {
	tb.Helper()
	if o.Processor == nil {
		o.Processor = &fake{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := New(o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
		if err := <-served; !errors.Is(err, ErrClosed) {
			tb.Errorf("Serve: %v", err)
		}
		if n := s.InFlightBytes(); n != 0 {
			tb.Errorf("%d bytes are in flight after Close", n)
		}
	})
	return s
}

// patience is how long tests wait for what happens at once unless the machine is busy, or stops the process.
const patience = 2 * time.Minute

// client is a minimal client of the protocol.
type client struct {
	tb          testing.TB
	net         net.Conn
	version     frame.Version
	compression frame.Compression
	compressor  *frame.Compressor
	framed      bool
	buffered    []byte // of v5: envelopes of segments already read
}

func dial(tb testing.TB, addr string, v frame.Version) *client {
	tb.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	return newClient(tb, nc, v)
}

// newClient returns a client that uses a connection until the test ends.
func newClient(tb testing.TB, nc net.Conn, v frame.Version) *client {
	tb.Helper()
	tb.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return &client{tb: tb, net: nc, version: v, compressor: frame.NewCompressor()}
}

// connect dials and brings the connection to READY.
func connect(tb testing.TB, addr string, v frame.Version, options ...frame.StringPair) *client {
	tb.Helper()
	c := dial(tb, addr, v)
	h, _ := c.startup(options...)
	if h.Opcode != frame.OpReady {
		tb.Fatalf("STARTUP is answered by %v", h.Opcode)
	}
	return c
}

func (c *client) startup(options ...frame.StringPair) (frame.Header, []byte) {
	c.tb.Helper()
	pairs := append([]frame.StringPair{{Key: "CQL_VERSION", Value: "3.0.0"}}, options...)
	var compression frame.Compression
	for _, p := range pairs {
		if p.Key == "COMPRESSION" {
			compression, _ = frame.ParseCompression(p.Value, c.version)
		}
	}
	c.write(frame.OpStartup, 0, 0, frame.AppendStringMap(nil, pairs))
	h, body := c.read()
	c.compression = compression
	c.framed = c.version >= frame.V5 && h.Opcode != frame.OpError
	return h, body
}

func envelope(v frame.Version, op frame.Opcode, stream int16, flags frame.Flags, body []byte) []byte {
	e := frame.AppendHeader(nil, frame.Header{Version: v, Flags: flags, Stream: stream, Opcode: op})
	e = append(e, body...)
	frame.FinishEnvelope(e, 0)
	return e
}

func (c *client) write(op frame.Opcode, stream int16, flags frame.Flags, body []byte) {
	c.tb.Helper()
	c.writeEnvelope(envelope(c.version, op, stream, flags, body))
}

func (c *client) writeEnvelope(e []byte) {
	c.tb.Helper()
	switch {
	case c.framed && c.compression == frame.LZ4:
		e = frame.AppendSegments(nil, e, c.compressor)
	case c.framed:
		e = frame.AppendSegments(nil, e, nil)
	default:
		e = c.compressor.CompressBody(e, 0, c.compression)
	}
	c.writeRaw(e)
}

func (c *client) writeRaw(b []byte) {
	c.tb.Helper()
	if _, err := c.net.Write(b); err != nil {
		c.tb.Fatalf("write: %v", err)
	}
}

// tryRead returns the next envelope with its body decompressed.
func (c *client) tryRead() (frame.Header, []byte, error) {
	var raw [frame.HeaderSize]byte
	if err := c.fill(raw[:]); err != nil {
		return frame.Header{}, nil, err
	}
	h, err := frame.DecodeHeader(raw[:])
	if err != nil {
		return h, nil, err
	}
	body := make([]byte, h.Length)
	if err := c.fill(body); err != nil {
		return h, nil, err
	}
	if h.Flags&frame.FlagCompressed != 0 {
		body, err = frame.DecompressBody(body, c.compression, 64<<20)
	}
	return h, body, err
}

// fill reads len(b) bytes of envelopes.
func (c *client) fill(b []byte) error {
	if !c.framed {
		_, err := io.ReadFull(c.net, b)
		return err
	}
	for len(c.buffered) < len(b) {
		if err := c.readSegment(); err != nil {
			return err
		}
	}
	c.buffered = c.buffered[copy(b, c.buffered):]
	return nil
}

func (c *client) readSegment() error {
	lz4 := c.compression == frame.LZ4
	raw := make([]byte, frame.SegmentHeaderSize(lz4))
	if _, err := io.ReadFull(c.net, raw); err != nil {
		return err
	}
	h, err := frame.DecodeSegmentHeader(raw, lz4)
	if err != nil {
		return err
	}
	payload := make([]byte, h.PayloadLength+frame.SegmentTrailerSize)
	if _, err := io.ReadFull(c.net, payload); err != nil {
		return err
	}
	c.buffered, err = frame.AppendSegmentPayload(c.buffered, payload, h)
	return err
}

func (c *client) read() (frame.Header, []byte) {
	c.tb.Helper()
	h, body, err := c.tryRead()
	if err != nil {
		c.tb.Fatalf("read: %v", err)
	}
	return h, body
}

func queryBody(v frame.Version, text string) []byte {
	q := frame.Query{Query: text, Params: frame.Params{Consistency: ring.One, SerialConsistency: ring.Serial}}
	return q.Append(nil, v)
}

// send sends QUERY without waiting for the answer.
func (c *client) send(stream int16, text string) {
	c.tb.Helper()
	c.write(frame.OpQuery, stream, 0, queryBody(c.version, text))
}

// query sends QUERY and returns its answer.
func (c *client) query(text string) (frame.Header, []byte) {
	c.tb.Helper()
	c.send(7, text)
	h, body := c.read()
	if h.Stream != 7 {
		c.tb.Fatalf("the answer to stream 7 has stream %d", h.Stream)
	}
	return h, body
}

// works fails the test unless the connection answers a query.
func (c *client) works() {
	c.tb.Helper()
	if h, body := c.query("works?"); h.Opcode != frame.OpResult {
		cur := wire.NewCursor(body)
		c.tb.Fatalf("the connection returned %v %v", h.Opcode, frame.ConsumeError(&cur, h.Version))
	}
}

// readError returns the next envelope, an ERROR.
func (c *client) readError() (frame.Header, *frame.Error) {
	c.tb.Helper()
	h, body := c.read()
	if h.Opcode != frame.OpError {
		c.tb.Fatalf("got %v, want ERROR", h.Opcode)
	}
	cur := wire.NewCursor(body)
	e := frame.ConsumeError(&cur, h.Version)
	if err := cur.Finish(); err != nil {
		c.tb.Fatalf("error body: %v", err)
	}
	return h, e
}

// closed fails the test unless the server has closed the connection cleanly.
func (c *client) closed() {
	c.tb.Helper()
	if h, _, err := c.tryRead(); !errors.Is(err, io.EOF) {
		c.tb.Errorf("connection is not closed: got %v, %v", h.Opcode, err)
	}
}

// eventually waits for condition.
func eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	await.Until(tb, what, condition)
}

// lengthAt sets the length field of the envelope e.
func lengthAt(e []byte, n uint32) []byte {
	binary.BigEndian.PutUint32(e[5:], n)
	return e
}
