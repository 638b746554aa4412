package server

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/internal/guard"
	"cqld/query"
	"cqld/request"
	"cqld/server/frame"
)

// Drivers rely on the version in the header and on this text (§14.1).
func TestUnsupportedVersionErrorListsSupported(t *testing.T) {
	_, addr := start(t, Options{})
	for _, v := range []frame.Version{0, 7, 65, 66, 127} {
		c := dial(t, addr, v)
		c.write(frame.OpOptions, 9, 0, []byte("body to be skipped"))
		h, e := c.readError()
		if h.Version != frame.V5 || h.Stream != 9 || e.Code != frame.CodeProtocolError ||
			!strings.Contains(e.Message, "Invalid or unsupported protocol version (") ||
			!strings.Contains(e.Message, "supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)") {
			t.Errorf("version %d: %+v %+v", v, h, e)
		}
		c.version = frame.V4 // as in Cassandra, the connection can continue with another version
		c.startup()
		c.works()
	}
	for _, v := range []byte{1, 2} {
		c := dial(t, addr, 0)
		c.writeRaw([]byte{v, 0, 9, byte(frame.OpOptions), 0, 0, 0, 0})
		answer, err := io.ReadAll(c.net)
		if err != nil || len(answer) < frame.LegacyHeaderSize || answer[0] != v|0x80 || answer[2] != 9 ||
			len(answer) != frame.LegacyHeaderSize+int(answer[7]) {
			t.Errorf("v%d: % x, %v", v, answer, err)
		}
	}
}

// Each input gets its error; the connection then continues or ends, and another
// connection notices nothing.
func TestBadEnvelopes(t *testing.T) {
	_, addr := start(t, Options{Limits: Limits{FrameBytesMax: 1 << 20}})
	other := map[frame.Version]frame.Version{3: 4, 4: 5, 5: 3, 6: 5}
	random := rand.New(rand.NewPCG(1, 1))
	long := make([]byte, 1<<20) // must stay so large when compressed
	for i := range long {
		long[i] = byte(random.Uint32())
	}
	cases := []struct {
		name string
		send func(c *client)
		want string
		code frame.ErrorCode
		ends bool
	}{
		{"unknown opcode", func(c *client) { c.write(0x44, 1, 0, []byte("abc")) }, "Unknown opcode 68",
			frame.CodeProtocolError, false},
		{
			"response opcode", func(c *client) { c.write(frame.OpResult, 1, 0, nil) },
			"Wrong protocol direction (expected RESPONSE, got REQUEST) for opcode 8 (RESULT)", frame.CodeProtocolError,
			false,
		},
		{
			"response direction", func(c *client) {
				e := envelope(c.version, frame.OpOptions, 1, 0, nil)
				e[0] |= 0x80
				c.writeEnvelope(e)
			}, "Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode 5 (OPTIONS)",
			frame.CodeProtocolError, false,
		},
		{
			"other version", func(c *client) {
				c.writeEnvelope(envelope(other[c.version], frame.OpOptions, 1, 0,
					nil))
			},
			"Invalid message version. Got ", frame.CodeProtocolError, false,
		},
		{"second STARTUP", func(c *client) { c.write(frame.OpStartup, 1, 0, []byte{0, 0}) }, "already initialized",
			frame.CodeProtocolError, false},
		{"truncated body", func(c *client) { c.write(frame.OpQuery, 1, 0, []byte{0, 0, 0, 9, 'S'}) },
			"Not enough bytes", frame.CodeProtocolError, false},
		{"empty body", func(c *client) { c.write(frame.OpExecute, 1, 0, nil) }, "Not enough bytes",
			frame.CodeProtocolError, false},
		{
			"unknown consistency", func(c *client) {
				b := queryBody(c.version, "SELECT")
				b[4+6+1] = 12
				c.write(frame.OpQuery, 1, 0, b)
			}, "Unknown code 12 for a consistency level", frame.CodeProtocolError, false,
		},
		{"unknown event", func(c *client) { c.write(frame.OpRegister, 1, 0, []byte("\x00\x01\x00\x03abc")) },
			"Invalid value 'abc' for Type", frame.CodeProtocolError, false},
		{
			"too large", func(c *client) { c.send(1, string(long)) },
			" maximum ", frame.CodeInvalid, false, // TestTheLargestRequest has the messages
		},
	}
	everyWay(t, func(t *testing.T, v frame.Version, options []frame.StringPair) {
		bystander := connect(t, addr, v, options...)
		for _, bad := range cases {
			c := connect(t, addr, v, options...)
			go bad.send(c) // large ones fill the socket before the answer is read
			if _, e := c.readError(); e.Code != bad.code || !strings.Contains(e.Message, bad.want) {
				t.Errorf("%s: %+v", bad.name, e)
			}
			if bad.ends {
				c.closed()
			} else {
				c.works()
			}
		}
		bystander.works()
	})
}

func TestBadHandshakes(t *testing.T) {
	_, addr := start(t, Options{})
	pair := func(k, v string) frame.StringPair { return frame.StringPair{Key: k, Value: v} }
	startup := func(pairs ...frame.StringPair) func(*client) {
		return func(c *client) { c.write(frame.OpStartup, 1, 0, frame.AppendStringMap(nil, pairs)) }
	}
	cases := []struct {
		name string
		v    frame.Version
		send func(*client)
		want string
		ends bool
	}{
		{"QUERY first", 4, func(c *client) { c.send(1, "SELECT") },
			"Unexpected message QUERY, expecting STARTUP or OPTIONS", true},
		{"no CQL_VERSION", 4, startup(), "Missing value CQL_VERSION in STARTUP message", false},
		{"old CQL_VERSION", 4, startup(pair("CQL_VERSION", "1.0.0")), "CQL version 1.0.0 is not supported", false},
		{"odd CQL_VERSION", 4, startup(pair("CQL_VERSION", "x")), "Invalid version value: x", false},
		{"unknown compression", 4, startup(pair("CQL_VERSION", "3.0.0"), pair("compression", "zstd")),
			"Unknown compression algorithm: zstd", false},
		{"snappy in v5", 5, startup(pair("CQL_VERSION", "3.0.0"), pair("COMPRESSION", "snappy")),
			"Snappy compression is not supported in protocol V5", false},
		{"large STARTUP", 4, func(c *client) { c.write(frame.OpStartup, 1, 0, make([]byte, handshakeFrameMax+1)) },
			"too big before authentication", true},
		{"a claim of 2 GiB", 5, func(c *client) {
			c.writeRaw(lengthAt(envelope(5, frame.OpStartup, 1, 0, nil),
				1<<31-1))
		}, "too big before authentication", true},
		{"a negative length", 4, func(c *client) {
			c.writeRaw(lengthAt(envelope(4, frame.OpOptions, 1, 0, nil),
				1<<31))
		}, "Invalid value for envelope header body length field: -2147483648", true},
	}
	for _, bad := range cases {
		c := dial(t, addr, bad.v)
		bad.send(c)
		if _, e := c.readError(); e.Code != frame.CodeProtocolError || !strings.Contains(e.Message, bad.want) {
			t.Errorf("%s: %+v", bad.name, e)
		}
		if bad.ends {
			c.closed()
		} else if h, _ := c.startup(); h.Opcode != frame.OpReady {
			t.Errorf("%s: STARTUP is then answered %v", bad.name, h.Opcode)
		}
	}
}

// Input that is not CQL gets a response or a closed connection, soon.
func TestOtherProtocolsAreRefused(t *testing.T) {
	_, addr := start(t, Options{Limits: Limits{HandshakeTimeout: 200 * time.Millisecond}})
	for _, hello := range []string{
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", // TLS
		"SSH-2.0-OpenSSH_9.6\r\n",
		"\x00",
		"",
	} {
		c := dial(t, addr, 4)
		c.writeRaw([]byte(hello))
		if _, err := io.Copy(io.Discard, c.net); err != nil {
			t.Errorf("%q: %v", hello, err)
		}
	}
}

func TestDamagedSegments(t *testing.T) {
	_, addr := start(t, Options{})
	for _, options := range [][]frame.StringPair{nil, {lz4Option}} {
		lz4 := options != nil
		bystander := connect(t, addr, frame.V5, options...)
		segment := func(c *client, envelopes []byte) []byte {
			if lz4 {
				return frame.AppendSegments(nil, envelopes, c.compressor)
			}
			return frame.AppendSegments(nil, envelopes, nil)
		}
		size := frame.SegmentHeaderSize(lz4)
		query := envelope(frame.V5, frame.OpQuery, 1, 0, queryBody(frame.V5, strings.Repeat("y", 600)))
		cases := []struct {
			name   string
			damage func(c *client) []byte
			want   string
		}{
			{"header CRC", func(c *client) []byte { b := segment(c, query); b[size-1] ^= 1; return b },
				"CRC mismatch detected in frame header"},
			{"payload CRC", func(c *client) []byte { b := segment(c, query); b[len(b)-1] ^= 1; return b },
				"CRC mismatch detected in frame body"},
			{"payload", func(c *client) []byte { b := segment(c, query); b[size+20] ^= 1; return b },
				"CRC mismatch detected in frame body"},
			{"no segment at all", func(*client) []byte { return query }, "CRC mismatch detected in frame header"},
			{
				"envelope longer than its segment", func(c *client) []byte {
					return segment(c,
						lengthAt(bytes.Clone(query), 9999))
				},
				"longer than the self-contained frame",
			},
			{"half a header", func(c *client) []byte { return segment(c, query[:5]) },
				"too short for a message header"},
			{"version 9 inside", func(c *client) []byte { b := bytes.Clone(query); b[0] = 9; return segment(c, b) },
				"Invalid message version. Got 9/v9"},
			{
				"whole envelope within a large one", func(c *client) []byte {
					large := envelope(frame.V5, frame.OpQuery, 1, 0, queryBody(frame.V5, strings.Repeat("y", 300_000)))
					first := segment(c, large)
					h, err := frame.DecodeSegmentHeader(first, lz4)
					if err != nil {
						t.Fatal(err)
					}
					first = first[:size+h.PayloadLength+frame.SegmentTrailerSize]
					return append(first, segment(c, query)...)
				}, "self-contained frame received within a message",
			},
		}
		for _, bad := range cases {
			c := connect(t, addr, frame.V5, options...)
			c.writeRaw(bad.damage(c))
			if _, e := c.readError(); e.Code != frame.CodeProtocolError || !strings.Contains(e.Message, bad.want) {
				t.Errorf("lz4 %v, %s: %+v", lz4, bad.name, e)
			}
			c.closed()
		}
		bystander.works()
	}
}

func TestBadCompressedBodies(t *testing.T) {
	_, addr := start(t, Options{})
	bodies := map[string]struct{ options, hex string }{
		"lz4 garbage":        {"lz4", "00000010ffffffffff"},
		"lz4 bomb":           {"lz4", "00ffffff00000000"},
		"lz4 4 GiB":          {"lz4", "ffffffff00000000"},
		"snappy garbage":     {"snappy", "10ffffffffff"},
		"snappy 2 GiB":       {"snappy", "ffffffff07"},
		"nothing negotiated": {"", "00"},
	}
	for name, bad := range bodies {
		var options []frame.StringPair
		if bad.options != "" {
			options = append(options, frame.StringPair{Key: "COMPRESSION", Value: bad.options})
		}
		body, err := hex.DecodeString(bad.hex)
		if err != nil {
			t.Fatal(err)
		}
		c := connect(t, addr, frame.V4, options...)
		c.writeRaw(envelope(frame.V4, frame.OpQuery, 1, frame.FlagCompressed, body))
		if _, e := c.readError(); e.Code != frame.CodeProtocolError {
			t.Errorf("%s: %+v", name, e)
		}
		c.works()
	}
}

// Random bytes on many connections: none may stop the server or another client.
func TestRandomBytesDoNotAffectOthers(t *testing.T) {
	_, addr := start(t, Options{})
	bystander := connect(t, addr, frame.V5, lz4Option)
	random := rand.New(rand.NewPCG(7, 7))
	for i := range 200 {
		var c *client
		if i%2 == 0 {
			c = dial(t, addr, 4)
		} else {
			c = connect(t, addr, frame.Version(3+i%3))
		}
		junk := make([]byte, 1+random.IntN(300))
		for j := range junk {
			junk[j] = byte(random.Uint32())
		}
		if i%3 == 0 {
			junk[0] = byte(3 + i%3)
		}
		c.net.Write(junk)
		c.net.(*net.TCPConn).CloseWrite()
		if _, err := io.Copy(io.Discard, c.net); err != nil && !isReset(err) {
			t.Errorf("round %d: %v", i, err)
		}
	}
	bystander.works()
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}

func TestPanicEndsOnlyItsRequestOrConnection(t *testing.T) {
	var log bytes.Buffer
	var mu sync.Mutex
	g := guard.New(slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil)))
	_, addr := start(t, Options{Guard: g, Processor: &fake{
		query: func(_ *request.Request, _ *query.Session, text string, _ *query.Params) (*query.Result, error) {
			if text == "panic" {
				panic("a defect")
			}
			if text == "bad result" {
				return &query.Result{Kind: query.KindRows}, nil // no metadata: the encoder fails
			}
			return void()
		},
	}})
	bystander := connect(t, addr, frame.V4)
	c := connect(t, addr, frame.V4)
	c.send(1, "panic")
	if h, _, err := c.tryRead(); err != nil || h.Opcode != frame.OpError {
		t.Errorf("panic: answered by %v, %v", h.Opcode, err)
	}
	bystander.works()
	c.works() // the statement panicked, the connection's state is whole
	c.send(2, "bad result")
	if h, _, err := c.tryRead(); err == nil {
		t.Errorf("bad result: answered by %v", h.Opcode)
	}
	bystander.works()
	if got := g.Counts(); got["CQL request"] != 1 || got["CQL reply"] != 1 || len(got) != 2 {
		t.Errorf("counted %v", got)
	}
	mu.Lock() // the race detector does not order the log's write before the end of the connection
	defer mu.Unlock()
	if n := strings.Count(log.String(), "a defect"); n != 1 || !strings.Contains(log.String(), "processGuarded") {
		t.Errorf("%d logs of the panic:\n%s", n, &log)
	}
}

// untilContext returns a processor whose statements end when their contexts do.
func untilContext(entered chan<- struct{}, ended chan<- error) *fake {
	return &fake{query: func(r *request.Request, _ *query.Session, text string, _ *query.Params) (*query.Result,
		error) {
		if text != "slow" {
			return void()
		}
		entered <- struct{}{}
		<-r.Context.Done()
		ended <- r.Context.Err()
		return nil, r.Context.Err()
	}}
}

func TestStatementsEndWithTheirClientAndWithADrain(t *testing.T) {
	entered, ended := make(chan struct{}, 4), make(chan error, 4)
	s, addr := start(t, Options{Processor: untilContext(entered, ended)})
	other := connect(t, addr, frame.V5)
	other.send(1, "slow")
	c := connect(t, addr, frame.V4)
	c.send(1, "slow")
	c.send(2, "slow")
	for range 3 {
		<-entered
	}
	c.net.Close()
	for range 2 {
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("the statements continue after their client disconnected")
		}
	}
	select {
	case <-ended:
		t.Error("a statement of another client ended as well")
	case <-time.After(50 * time.Millisecond):
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drain: %v", err)
	}
	if len(ended) != 1 {
		t.Error("the drain did not wait for the statement that it ended")
	}
}
