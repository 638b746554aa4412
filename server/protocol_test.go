package server

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unsafe"

	"cqld/internal/wire"
	"cqld/query"
	"cqld/request"
	"cqld/server/frame"
	"cqld/types"
)

var lz4Option = frame.StringPair{Key: "COMPRESSION", Value: "lz4"}

// everyWay runs f for each version and compression clients can negotiate.
func everyWay(t *testing.T, f func(t *testing.T, v frame.Version, options []frame.StringPair)) {
	for _, way := range []struct {
		v           frame.Version
		compression string
	}{{3, ""}, {3, "lz4"}, {4, ""}, {4, "lz4"}, {4, "snappy"}, {5, ""}, {5, "lz4"}, {6, "lz4"}} {
		t.Run(fmt.Sprintf("v%d%s", way.v, way.compression), func(t *testing.T) {
			var options []frame.StringPair
			if way.compression != "" {
				options = append(options, frame.StringPair{Key: "COMPRESSION", Value: way.compression})
			}
			f(t, way.v, options)
		})
	}
}

// rowsOf returns a result of n rows of one text column.
func rowsOf(n int, cell string) *query.Result {
	r := &query.Result{
		Kind: query.KindRows, RowCount: int32(n),
		Metadata: &query.Metadata{
			Columns: []query.Column{{Keyspace: "ks", Table: "t", Name: "c", Type: types.Native(types.Text)}},
			ID:      []byte("id"),
		},
	}
	for range n {
		r.Rows = wire.AppendBytes(r.Rows, []byte(cell))
	}
	return r
}

func TestOptionsAreAnsweredBeforeAndAfterStartup(t *testing.T) {
	_, addr := start(t, Options{})
	everyWay(t, func(t *testing.T, v frame.Version, options []frame.StringPair) {
		c := dial(t, addr, v)
		check := func() {
			t.Helper()
			c.write(frame.OpOptions, 5, 0, nil)
			h, body := c.read()
			cur := wire.NewCursor(body)
			got := fmt.Sprint(frame.ConsumeSupported(&cur))
			const want = "[{PROTOCOL_VERSIONS [3/v3 4/v4 5/v5 6/v6-beta]} {COMPRESSION [snappy lz4]} " +
				"{CQL_VERSION [3.4.7]} {GRACEFUL_DISCONNECT [true]}]"
			if h.Opcode != frame.OpSupported || h.Stream != 5 || h.Version != v || got != want || cur.Finish() != nil {
				t.Errorf("%+v %s", h, got)
			}
		}
		check()
		if h, _ := c.startup(options...); h.Opcode != frame.OpReady {
			t.Fatalf("STARTUP: %v", h.Opcode)
		}
		check()
		c.works()
	})
}

func TestRowsAreComplete(t *testing.T) {
	result := rowsOf(50_000, "a cell with some text") // 1.2 MB: many v5 segments
	result.PagingState = []byte("state")
	session := [16]byte{1}
	_, addr := start(t, Options{Processor: &fake{
		query: func(r *request.Request, _ *query.Session, _ string, _ *query.Params) (*query.Result, error) {
			r.Warn("careful")
			r.TraceID = &session
			copied := *result
			return &copied, nil
		},
	}})
	everyWay(t, func(t *testing.T, v frame.Version, options []frame.StringPair) {
		c := connect(t, addr, v, options...)
		for range 3 {
			h, body := c.query("SELECT")
			cur := wire.NewCursor(body)
			prefix := frame.ConsumeResponsePrefix(&cur, h.Flags)
			r := frame.ConsumeResult(&cur, v)
			if cur.Finish() != nil || r.RowCount != 50_000 || !bytes.Equal(r.Rows, result.Rows) ||
				string(r.Metadata.PagingState) != "state" {
				t.Fatalf("%+v: %d rows, %d bytes, %v", h, r.RowCount, len(r.Rows), cur.Err())
			}
			if prefix.TracingID != session || (v >= frame.V4) != (len(prefix.Warnings) == 1) {
				t.Errorf("prefix %+v", prefix)
			}
		}
	})
}

func TestLargeRequestsAreComplete(t *testing.T) {
	_, addr := start(t, Options{Processor: &fake{
		query: func(_ *request.Request, _ *query.Session, text string, _ *query.Params) (*query.Result, error) {
			return rowsOf(1, fmt.Sprint(len(text), strings.Count(text, "x"))), nil
		},
	}})
	everyWay(t, func(t *testing.T, v frame.Version, options []frame.StringPair) {
		c := connect(t, addr, v, options...)
		for _, n := range []int{0, 1, 500, 1000, 33_000, 131_000, 200_000, 3_000_000} {
			_, body := c.query(strings.Repeat("x", n))
			cur := wire.NewCursor(body)
			r := frame.ConsumeResult(&cur, v)
			cells := wire.NewCursor(r.Rows)
			if got := string(cells.Bytes()); got != fmt.Sprint(n, n) {
				t.Errorf("a statement of %d bytes arrives as %q", n, got)
			}
		}
	})
}

func TestExecuteAndBatchCarryTheirParameters(t *testing.T) {
	var executed, batched string
	_, addr := start(t, Options{Processor: &fake{
		execute: func(r *request.Request, s *query.Session, id []byte, p *query.Params) (*query.Result, error) {
			executed = fmt.Sprint(id, r.Consistency, r.SerialConsistency, p.Values, p.Names, p.PageSize, p.PagingState,
				p.HasTimestamp,
				p.Timestamp, p.SkipMetadata, p.ResultMetadataID, p.Keyspace, p.HasNow, p.NowInSeconds, r.Tracing,
				s.Version)
			return void()
		},
		batch: func(r *request.Request, _ *query.Session, p *query.BatchParams) (*query.Result, error) {
			batched = fmt.Sprint(p.Kind, p.Entries, r.Consistency)
			return void()
		},
	}})
	c := connect(t, addr, frame.V5)
	e := frame.Execute{ID: []byte{1}, ResultMetadataID: []byte{2}, Params: frame.Params{
		Consistency: 4, SerialConsistency: 9, Values: []wire.Value{wire.BytesValue([]byte{3}),
			wire.Value{Kind: wire.ValueUnset}},
		SkipMetadata: true, PageSize: 10, PagingState: []byte{4}, Timestamp: 5, HasTimestamp: true,
		NowInSeconds: -6, HasNowInSeconds: true, Keyspace: "ks", // in the year 2106
	}}
	c.write(frame.OpExecute, 1, frame.FlagTracing, e.Append(nil, frame.V5))
	c.read()
	const want = "[1] QUORUM LOCAL_SERIAL [{1 [3]} {2 []}] [] 10 [4] true 5 true [2]kstrue 4294967290 true 5"
	if executed != want {
		t.Errorf("EXECUTE\n got %s\nwant %s", executed, want)
	}
	b := frame.Batch{Type: frame.BatchUnlogged, Params: frame.Params{Consistency: 4},
		Statements: []frame.BatchStatement{
			{Query: "a", Values: []wire.Value{{}}}, {ID: []byte{9}},
		}}
	c.write(frame.OpBatch, 1, 0, b.Append(nil, frame.V5))
	c.read()
	if want := "UNLOGGED [{a [] [{0 []}]} { [9] []}] QUORUM"; batched != want {
		t.Errorf("BATCH\n got %s\nwant %s", batched, want)
	}
	c.write(frame.OpPrepare, 1, 0, (&frame.Prepare{Query: "a"}).Append(nil, frame.V5))
	_, body := c.read()
	cur := wire.NewCursor(body)
	if r := frame.ConsumeResult(&cur, frame.V5); cur.Finish() != nil ||
		fmt.Sprint(r.Prepared.ID, r.Prepared.ResultMetadataID) != "[1 2] [3]" {
		t.Errorf("PREPARE: %+v", r)
	}
}

// The memory of decoded values is reserved before they are decoded. A request that needs more than one may use is
// refused. A worker returns the memory before its next request.
func TestDecodedValuesAreReserved(t *testing.T) {
	const values = 60_000
	reserved := int64(-1)
	s, addr := start(t, Options{Limits: Limits{FrameBytesMax: 4 << 20, InFlightBytesMax: 16 << 20}, Processor: &fake{
		batch: func(r *request.Request, _ *query.Session, p *query.BatchParams) (*query.Result, error) {
			reserved = r.Memory.Bytes()
			return void()
		},
	}})
	c := connect(t, addr, frame.V5)
	batch := func(statements int) []byte {
		b := frame.Batch{Params: frame.Params{Consistency: 1, SerialConsistency: 8}}
		for range statements {
			b.Statements = append(b.Statements, frame.BatchStatement{ID: []byte{9}, Values: make([]wire.Value, values)})
		}
		return b.Append(nil, frame.V5)
	}
	c.write(frame.OpBatch, 1, 0, batch(1))
	c.read()
	if least := int64(values * unsafe.Sizeof(wire.Value{})); reserved < least {
		t.Errorf("%d bytes were reserved for %d values", reserved, values)
	}
	eventually(t, "nothing is reserved", func() bool { return s.memory.Used() == 0 })
	reserved = -1
	c.write(frame.OpBatch, 1, 0, batch(10)) // 19 MB of values in a body of 2.4 MB
	if _, e := c.readError(); e.Code != frame.CodeInvalid || !strings.Contains(e.Message, "needs") || reserved >= 0 {
		t.Errorf("too many values: %+v", e)
	}
	c.works()
}

func TestUseChangesTheSession(t *testing.T) {
	s, addr := start(t, Options{Processor: &fake{
		query: func(_ *request.Request, s *query.Session, text string, _ *query.Params) (*query.Result, error) {
			if name, ok := strings.CutPrefix(text, "USE "); ok {
				return &query.Result{Kind: query.KindSetKeyspace, Keyspace: name}, nil
			}
			return rowsOf(1, s.Keyspace), nil
		},
	}})
	c := connect(t, addr, frame.V4, frame.StringPair{Key: "driver_name", Value: "test"})
	c.query("USE uprofile")
	_, body := c.query("which?")
	if !bytes.Contains(body, []byte("uprofile")) {
		t.Error("the next statement does not see the keyspace")
	}
	clients := s.Clients()
	if len(clients) != 1 || clients[0].Keyspace != "uprofile" || clients[0].DriverName != "test" ||
		clients[0].Stage != "READY" ||
		clients[0].ProtocolVersion != 4 || clients[0].Requests != 3 ||
		clients[0].Address.String() != c.net.LocalAddr().String() {
		t.Errorf("clients = %+v", clients)
	}
}

// The first statement blocks; the second must be answered nevertheless.
func TestRequestsOfAConnectionAreConcurrent(t *testing.T) {
	release := make(chan struct{})
	_, addr := start(t, Options{Processor: &fake{
		query: func(_ *request.Request, _ *query.Session, text string, _ *query.Params) (*query.Result, error) {
			if text == "slow" {
				<-release
			}
			return void()
		},
	}})
	everyWay(t, func(t *testing.T, v frame.Version, options []frame.StringPair) {
		release = make(chan struct{})
		c := connect(t, addr, v, options...)
		c.send(1, "slow")
		c.send(2, "fast")
		if h, _ := c.read(); h.Stream != 2 {
			t.Errorf("stream %d is answered first", h.Stream)
		}
		close(release)
		if h, _ := c.read(); h.Stream != 1 {
			t.Errorf("stream %d is answered last", h.Stream)
		}
	})
}

func TestManyRequestsInFlight(t *testing.T) {
	_, addr := start(t, Options{Processor: &fake{
		query: func(_ *request.Request, _ *query.Session, text string, _ *query.Params) (*query.Result, error) {
			return rowsOf(1, text), nil
		},
	}})
	everyWay(t, func(t *testing.T, v frame.Version, options []frame.StringPair) {
		const n = 3000
		c := connect(t, addr, v, options...)
		go func() {
			for i := range n {
				e := envelope(v, frame.OpQuery, int16(i), 0, queryBody(v, fmt.Sprintf("text %d;", i)))
				switch {
				case v >= frame.V5 && options != nil:
					e = frame.AppendSegments(nil, e, c.compressor)
				case v >= frame.V5:
					e = frame.AppendSegments(nil, e, nil)
				}
				c.net.Write(e)
			}
		}()
		seen := map[int16]bool{}
		for range n {
			h, body := c.read()
			if seen[h.Stream] || !bytes.Contains(body, fmt.Appendf(nil, "text %d;", h.Stream)) {
				t.Fatalf("stream %d is answered twice or by another's rows", h.Stream)
			}
			seen[h.Stream] = true
		}
	})
}

func TestEventsGoToRegisteredClients(t *testing.T) {
	s, addr := start(t, Options{})
	node := netip.MustParseAddrPort("127.0.0.2:9042")
	everyWay(t, func(t *testing.T, v frame.Version, options []frame.StringPair) {
		all := connect(t, addr, v, options...)
		all.write(frame.OpRegister, 3, 0, frame.AppendRegister(nil, frame.AboutNodes|frame.GracefulDisconnect))
		if h, _ := all.read(); h.Opcode != frame.OpReady || h.Stream != 3 {
			t.Fatalf("REGISTER: %+v", h)
		}
		some := connect(t, addr, v, options...)
		some.write(frame.OpRegister, 3, 0, frame.AppendRegister(nil, frame.StatusChange))
		some.read()
		none := connect(t, addr, v, options...)

		s.NotifySchema(&query.SchemaChange{Change: "CREATED", Target: "FUNCTION", Keyspace: "ks", Name: "f",
			Args: []string{"int"}})
		s.NotifyTopology(frame.NodeNew, node)
		s.NotifyStatus(frame.NodeUp, node)

		event := func(c *client) string {
			h, body := c.read()
			cur := wire.NewCursor(body)
			e := frame.ConsumeEvent(&cur)
			if h.Opcode != frame.OpEvent || h.Stream != -1 || h.Version != v || cur.Finish() != nil {
				t.Errorf("event %+v: %v", h, cur.Err())
			}
			return fmt.Sprint(e.Type, e.Change, e.Node, e.Schema.Target, e.Schema.Name)
		}
		wantSchema := "SCHEMA_CHANGE CREATED invalid AddrPort FUNCTION f"
		if v < frame.V4 {
			wantSchema = "SCHEMA_CHANGE UPDATED invalid AddrPort KEYSPACE "
		}
		for _, want := range []string{wantSchema, "TOPOLOGY_CHANGE NEW_NODE 127.0.0.2:9042  ",
			"STATUS_CHANGE UP 127.0.0.2:9042  "} {
			if got := event(all); strings.Join(strings.Fields(got), "") != strings.Join(strings.Fields(want), "") {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if got := event(some); !strings.HasPrefix(got, "STATUS_CHANGE") {
			t.Errorf("got %q, want the status only", got)
		}
		none.works() // and no event in between
	})
}

// passwords lets theo in, after a challenge.
type passwords struct{}

func (passwords) Class() string                 { return "org.apache.cassandra.auth.PasswordAuthenticator" }
func (passwords) Begin(netip.AddrPort) Exchange { return &exchange{} }

func (passwords) Check(string, netip.AddrPort) Standing { return Standing{} }

type exchange struct{ challenged bool }

func (e *exchange) Evaluate(_ context.Context, token []byte) (string, bool, []byte, error) {
	switch {
	case string(token) == "\x00theo\x00secret":
		return "theo", true, nil, nil
	case e.challenged:
		return "", false, nil, &BadCredentials{Message: "Provided username theo and/or password are incorrect"}
	default:
		e.challenged = true
		return "", false, []byte("again"), nil
	}
}

func TestAuthentication(t *testing.T) {
	_, addr := start(t, Options{Authenticator: passwords{}, Processor: &fake{
		query: func(r *request.Request, _ *query.Session, _ string, _ *query.Params) (*query.Result, error) {
			return rowsOf(1, "user "+r.Principal.Name), nil
		},
	}})
	everyWay(t, func(t *testing.T, v frame.Version, options []frame.StringPair) {
		begin := func() *client {
			c := dial(t, addr, v)
			h, body := c.startup(options...)
			if h.Opcode != frame.OpAuthenticate || !bytes.Contains(body, []byte("PasswordAuthenticator")) {
				t.Fatalf("STARTUP: %v", h.Opcode)
			}
			return c
		}
		c := begin()
		c.write(frame.OpAuthResponse, 1, 0, wire.AppendBytes(nil, []byte("x")))
		if h, body := c.read(); h.Opcode != frame.OpAuthChallenge || string(body) != "\x00\x00\x00\x05again" {
			t.Errorf("%v %q", h.Opcode, body)
		}
		c.write(frame.OpAuthResponse, 1, 0, wire.AppendBytes(nil, []byte("\x00theo\x00secret")))
		if h, body := c.read(); h.Opcode != frame.OpAuthSuccess || string(body) != "\xff\xff\xff\xff" {
			t.Errorf("%v %q", h.Opcode, body)
		}
		if _, body := c.query("who?"); !bytes.Contains(body, []byte("user theo")) {
			t.Error("the session has no user")
		}

		c = begin()
		for range 2 {
			c.write(frame.OpAuthResponse, 1, 0, wire.AppendBytes(nil, []byte("x")))
		}
		c.read()
		if _, e := c.readError(); e.Code != frame.CodeBadCredentials {
			t.Errorf("%+v", e)
		}
		c.closed()

		c = begin()
		c.send(1, "SELECT secrets")
		if _, e := c.readError(); e.Code != frame.CodeProtocolError ||
			!strings.Contains(e.Message, "Unexpected message QUERY, expecting SASL_RESPONSE") {
			t.Errorf("%+v", e)
		}
		c.closed()
	})
}

// Each request of v6 needs the flag, even if the connection was set up with it. As in Cassandra 5, the connection
// continues.
func TestBetaVersionNeedsItsFlag(t *testing.T) {
	_, addr := start(t, Options{})
	c := connect(t, addr, frame.V6)
	unflagged := envelope(frame.V6, frame.OpOptions, 7, 0, nil)
	unflagged[1] = 0
	c.writeEnvelope(unflagged)
	if h, e := c.readError(); h.Stream != 7 || h.Version != frame.V6 || h.Flags != frame.FlagBeta ||
		e.Code != frame.CodeProtocolError ||
		e.Message != "Beta version of the protocol used (6/v6-beta), but USE_BETA flag is unset" {
		t.Errorf("%+v %+v", h, e)
	}
	c.writeEnvelope(envelope(frame.V5, frame.OpOptions, 8, 0, nil))
	if h, e := c.readError(); h.Stream != 8 || e.Message != "Invalid message version. Got 5/v5 but previous "+
		"messages on this connection had version 6/v6-beta" {
		t.Errorf("%+v %+v", h, e)
	}
	c.works()
	// Version 7 is not supported.
	_, addr = start(t, Options{Limits: Limits{VersionMax: frame.V4}})
	for _, v := range []frame.Version{frame.V6, 7} {
		c = dial(t, addr, v)
		c.writeEnvelope(envelope(v, frame.OpOptions, 1, 0, nil))
		if h, e := c.readError(); h.Version != frame.V4 || e.Message != fmt.Sprintf("Invalid or unsupported "+
			"protocol version (%d); supported versions are (3/v3, 4/v4)", v) {
			t.Errorf("%+v %+v", h, e)
		}
	}
}
