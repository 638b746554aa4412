package server

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"cqld/query"
	"cqld/request"
	"cqld/server/frame"
)

func TestRateAdmitsABurstAndThenTheRate(t *testing.T) {
	now := time.Unix(1000, 0)
	r := newRate(10)
	for i := range 10 {
		if delay, ok := r.admit(now, false); !ok || delay != 0 {
			t.Fatalf("request %d waits %v", i, delay)
		}
	}
	if delay, ok := r.admit(now, false); ok || delay <= 0 {
		t.Error("the eleventh request is admitted")
	}
	for i := range 5 {
		if delay, ok := r.admit(now, true); !ok || delay != time.Duration(i+1)*100*time.Millisecond {
			t.Errorf("waiting request %d is delayed by %v", i, delay)
		}
	}
	if delay, _ := r.admit(now.Add(600*time.Millisecond), true); delay != 0 {
		t.Errorf("a request after the others waits %v", delay)
	}
	if delay, ok := r.admit(now.Add(time.Hour), false); !ok || delay != 0 {
		t.Error("a request after a pause waits")
	}
}

// TestRequestsPerSecond checks both responses to too many requests. The message is Cassandra 5.0.9's.
func TestRequestsPerSecond(t *testing.T) {
	s, addr := start(t, Options{Limits: Limits{RequestsPerSecond: 3}})
	throwing := connect(t, addr, 4, frame.StringPair{Key: "THROW_ON_OVERLOAD", Value: "1"})
	refused := 0
	for range 20 {
		h, _ := throwing.query("SELECT")
		if h.Opcode == frame.OpError {
			refused++
		}
	}
	if refused == 0 || s.Limited(BoundRateRefused) != int64(refused) ||
		s.Errors()[frame.CodeOverloaded] != int64(refused) {
		t.Errorf("%d refused, %d counted", refused, s.Limited(BoundRateRefused))
	}
	throwing.send(1, "SELECT")
	if _, e := throwing.readError(); e.Message !=
		"Request breached global limit of 3 requests/second. Server is currently in an overloaded state and cannot "+
			"accept more requests." {
		t.Error(e.Message)
	}
	waiting := connect(t, addr, 4)
	for range 5 {
		if h, _ := waiting.query("SELECT"); h.Opcode == frame.OpError {
			t.Error("a request that may wait is refused")
		}
	}
	if s.Limited(BoundRateDelayed) == 0 {
		t.Error("no request was delayed")
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	running := make(chan struct{}, 1)
	proceed := make(chan struct{})
	s, addr := start(t, Options{Limits: Limits{IdleTimeout: 200 * time.Millisecond},
		Processor: &fake{query: func(*request.Request, *query.Session, string, *query.Params) (*query.Result, error) {
			running <- struct{}{}
			<-proceed
			return void()
		}}})
	for _, v := range versions() {
		idle := connect(t, addr, v)
		idle.closed()
	}
	if n := s.Limited(BoundIdle); n != int64(len(versions())) {
		t.Errorf("%d connections counted as idle", n)
	}
	busy := connect(t, addr, 4) // waits for a reply longer than it may be idle
	busy.send(1, "SELECT")
	<-running
	other := connect(t, addr, 4)
	other.closed()
	close(proceed)
	if h, _ := busy.read(); h.Opcode != frame.OpResult {
		t.Error("a connection with a request in progress is closed")
	}
	busy.works()
}

func TestVersionBounds(t *testing.T) {
	s, addr := start(t, Options{Limits: Limits{VersionMax: 4}})
	c := dial(t, addr, 4)
	c.writeRaw(envelope(5, frame.OpOptions, 1, 0, nil))
	if h, e := c.readError(); h.Version != 4 ||
		e.Message != "Invalid or unsupported protocol version (5); supported versions are (3/v3, 4/v4)" {
		t.Errorf("%v: %s", h.Version, e.Message)
	}
	connect(t, addr, 4).works()
	connect(t, addr, 3).works()
	if s.Limited(BoundVersion) != 1 {
		t.Error(s.Limited(BoundVersion))
	}
	_, newest := start(t, Options{Limits: Limits{OlderVersionsRefused: true}})
	c = dial(t, newest, 5)
	c.writeRaw(envelope(4, frame.OpOptions, 1, 0, nil))
	if h, e := c.readError(); h.Version != 5 || e.Message != "Rejecting Protocol Version 4/v4 < 5/v5." {
		t.Errorf("%v: %s", h.Version, e.Message)
	}
	connect(t, newest, 5).works()
}

// TestMemoryOfAnAddress fills the bound of one address with a request in progress, and sends another one.
func TestMemoryOfAnAddress(t *testing.T) {
	running := make(chan struct{}, 1)
	proceed := make(chan struct{})
	s, addr := start(t, Options{Limits: Limits{AddressBytesMax: 64 << 10},
		Processor: &fake{query: func(_ *request.Request, _ *query.Session, text string,
			_ *query.Params) (*query.Result, error) {
			if len(text) > 1000 {
				running <- struct{}{}
				<-proceed
			}
			return void()
		}}})
	large := string(make([]byte, 48<<10))
	first := connect(t, addr, 4)
	first.send(1, large)
	<-running
	second := connect(t, addr, 4, frame.StringPair{Key: "THROW_ON_OVERLOAD", Value: "1"})
	second.send(1, large)
	if _, e := second.readError(); e.Code != frame.CodeOverloaded {
		t.Errorf("%v %s", e.Code, e.Message)
	}
	second.works() // there is memory for small requests
	if s.Limited(BoundAddressInFlight) == 0 {
		t.Error("the refusal is not counted")
	}
	close(proceed)
	first.read()
	first.works()
}

// TestBoundsAreCounted checks the counts of the bounds on connections and handshakes.
func TestBoundsAreCounted(t *testing.T) {
	s, addr := start(t, Options{Limits: Limits{ConnectionsMax: 3, ConnectionsPerAddressMax: 2,
		HandshakeTimeout: time.Second}})
	connect(t, addr, 4)
	silent := dial(t, addr, 4)
	dial(t, addr, 4).closed()
	silent.closed()
	eventually(t, "the place of the closed connection is free", func() bool { return len(s.connections()) == 1 })
	large := dial(t, addr, 4)
	large.writeRaw(lengthAt(envelope(4, frame.OpStartup, 1, 0, nil), handshakeFrameMax+1))
	large.readError()
	for b, want := range map[Bound]int64{BoundPerAddress: 1, BoundHandshakeTime: 1, BoundHandshakeBytes: 1,
		BoundConnections: 0} {
		if got := s.Limited(b); got != want {
			t.Errorf("%v: %d, want %d", b, got, want)
		}
	}
	names := map[string]bool{}
	for b := range Bounds {
		if names[b.String()] || b.String() == "" {
			t.Errorf("bound %d is called %q", b, b)
		}
		names[b.String()] = true
	}
}

// TestCompressionBeforeAuthentication checks that a client that is not authenticated gets no memory for the size that a
// compressed body declares, beyond the memory of a request in this stage.
func TestCompressionBeforeAuthentication(t *testing.T) {
	_, addr := start(t, Options{Authenticator: &testAuthenticator{}})
	for _, size := range []uint32{handshakeFrameMax + 1, 1 << 20, 1<<31 - 1, 1<<32 - 1} {
		c := dial(t, addr, 4)
		if h, _ := c.startup(frame.StringPair{Key: "COMPRESSION", Value: "lz4"}); h.Opcode != frame.OpAuthenticate {
			t.Fatal(h.Opcode)
		}
		bomb := binary.BigEndian.AppendUint32(nil, size)
		c.writeRaw(envelope(4, frame.OpAuthResponse, 1, frame.FlagCompressed, append(bomb, make([]byte, 15<<10)...)))
		want := fmt.Sprintf("Decompressed body of %d bytes is larger than the maximum of %d", size, handshakeFrameMax)
		if _, e := c.readError(); e.Code != frame.CodeProtocolError || e.Message != want {
			t.Errorf("%d bytes declared: %v %s", size, e.Code, e.Message)
		}
	}
}
