package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/internal/await"
	"cqld/query"
	"cqld/request"
	"cqld/server/account"
	"cqld/server/frame"
)

// gate returns a Processor whose statements wait until it is opened.
func gate() (p *fake, running *atomic.Int64, open func()) {
	opened := make(chan struct{})
	running = new(atomic.Int64)
	return &fake{
		query: func(r *request.Request, _ *query.Session, _ string, _ *query.Params) (*query.Result, error) {
			running.Add(1)
			select {
			case <-opened:
				return void()
			case <-r.Context.Done(): // a failed test must not hang
				return nil, r.Context.Err()
			}
		},
	}, running, func() { close(opened) }
}

// TestFloodIsAnsweredOverloaded: a client that requested it gets OVERLOADED while memory is exhausted, and is served
// again afterwards.
func TestFloodIsAnsweredOverloaded(t *testing.T) {
	const n, bound = 80, 64 << 10 // a request takes 2.3 KB: 28 fit
	for _, v := range []frame.Version{4, 5} {
		processor, running, open := gate()
		s, addr := start(t, Options{Processor: processor,
			Limits: Limits{InFlightBytesMax: bound, ConnectionBytesMax: 1 << 20}})
		c := connect(t, addr, v, frame.StringPair{Key: "THROW_ON_OVERLOAD", Value: "1"})
		for i := range n {
			c.send(int16(i), strings.Repeat("x", 2000))
		}
		refused := 0
		for ; refused < n-28; refused++ {
			if _, e := c.readError(); e.Code != frame.CodeOverloaded {
				t.Fatalf("%+v", e)
			}
			if got := s.InFlightBytes(); got > bound+n*100 { // the refusals themselves
				t.Errorf("%d bytes in flight with a bound of %d", got, bound)
			}
		}
		open()
		for range n - refused {
			if h, _ := c.read(); h.Opcode == frame.OpError {
				refused++
			}
		}
		if executed := int(running.Load()); executed != n-refused || executed < 20 {
			t.Errorf("v%d: of %d requests %d were executed and %d refused", v, n, executed, refused)
		}
		c.works()
	}
}

// Without THROW_ON_OVERLOAD the reader pauses: nothing is refused, memory
// stays within the bound, and all is answered in the end.
func TestFloodIsSlowedDown(t *testing.T) {
	processor, running, open := gate()
	s, addr := start(t, Options{Processor: processor, Limits: Limits{InFlightBytesMax: 1 << 20,
		ConnectionBytesMax: 64 << 10}})
	const n = 400
	for _, v := range []frame.Version{4, 5} {
		c := connect(t, addr, v)
		go func() {
			for i := range n {
				e := envelope(v, frame.OpQuery, int16(i), 0, queryBody(v, strings.Repeat("x", 2000)))
				if v >= frame.V5 {
					e = frame.AppendSegments(nil, e, nil)
				}
				c.net.Write(e)
			}
		}()
		eventually(t, "the connection is paused", func() bool { return s.InFlightBytes() >= 52<<10 })
		time.Sleep(20 * time.Millisecond)
		if got := s.InFlightBytes(); got > 64<<10 {
			t.Errorf("%d bytes in flight with a bound of %d", got, 64<<10)
		}
		other := connect(t, addr, v) // is not slowed down by its neighbor
		other.write(frame.OpOptions, 1, 0, nil)
		other.read()
		if v == 4 {
			open()
		}
		for range n {
			if h, _ := c.read(); h.Opcode != frame.OpResult {
				t.Fatalf("answered by %v", h.Opcode)
			}
		}
		if v == 4 {
			break // the gate stays open
		}
	}
	if running.Load() < n {
		t.Errorf("%d executed", running.Load())
	}
}

func TestFullQueueIsOverloaded(t *testing.T) {
	processor, running, open := gate()
	_, addr := start(t, Options{Processor: processor, Limits: Limits{WorkersMax: 2, QueueMax: 3}})
	c := connect(t, addr, frame.V4)
	for i := range 10 {
		c.send(int16(i), "x")
	}
	for range 5 {
		if _, e := c.readError(); e.Code != frame.CodeOverloaded {
			t.Errorf("%+v", e)
		}
	}
	if n := running.Load(); n > 2 {
		t.Errorf("%d run concurrently", n)
	}
	open()
	for range 5 {
		if h, _ := c.read(); h.Opcode != frame.OpResult {
			t.Errorf("%v", h.Opcode)
		}
	}
}

// A client that sends requests and reads no responses is disconnected, and its memory is released.
func TestClientThatDoesNotReadIsDisconnected(t *testing.T) {
	big := rowsOf(1, strings.Repeat("x", 256<<10))
	s, addr := start(t, Options{
		Limits: Limits{WriteTimeout: 100 * time.Millisecond, ConnectionBytesMax: 2 << 20},
		Processor: &fake{query: func(*request.Request, *query.Session, string, *query.Params) (*query.Result, error) {
			copied := *big
			return &copied, nil
		}},
	})
	c := connect(t, addr, frame.V4)
	go func() {
		for i := range 200 {
			if _, err := c.net.Write(envelope(4, frame.OpQuery, int16(i), 0, queryBody(4, "big"))); err != nil {
				return
			}
		}
	}()
	eventually(t, "the client is disconnected", func() bool { return s.InFlightBytes() > 0 || len(s.Clients()) == 0 })
	eventually(t, "the client is disconnected", func() bool { return len(s.Clients()) == 0 })
	if n := s.InFlightBytes(); n != 0 {
		t.Errorf("%d bytes stay in flight", n)
	}
	connect(t, addr, frame.V4).write(frame.OpOptions, 1, 0, nil)
}

func TestHandshakeTimeout(t *testing.T) { inBubble(t, testHandshakeTimeout) }

func testHandshakeTimeout(t *testing.T, l *duplexListener) {
	s := serve(t, Options{Limits: Limits{HandshakeTimeout: 2 * time.Second}}, l)
	silent := l.dial(t, 4)
	ready := l.connect(t, 4)
	silent.closed()
	time.Sleep(100 * time.Millisecond)
	ready.works() // READY has no such limit
	if n := len(s.Clients()); n != 1 {
		t.Errorf("%d clients", n)
	}
}

// A client that begins a large request and stops sending must not hold
// memory for long.
func TestUnfinishedRequestsTimeOut(t *testing.T) { inBubble(t, testUnfinishedRequestsTimeOut) }

func testUnfinishedRequestsTimeOut(t *testing.T, l *duplexListener) {
	s := serve(t, Options{Limits: Limits{ReceiveTimeout: 300 * time.Millisecond}}, l)
	large := envelope(5, frame.OpQuery, 1, 0, queryBody(5, strings.Repeat("x", 400_000)))
	segments := frame.AppendSegments(nil, large, nil)
	for name, c := range map[string]struct {
		v    frame.Version
		part []byte
	}{
		"v4 body":           {4, envelope(4, frame.OpQuery, 1, 0, make([]byte, 2<<20))[:1<<20]},
		"v4 header":         {4, envelope(4, frame.OpQuery, 1, 0, make([]byte, 60<<10))[:9]},
		"v5 segment header": {5, segments[:6]},
		"v5 one of four segments": {5,
			segments[:frame.SegmentHeaderSize(false)+frame.SegmentPayloadMax+frame.SegmentTrailerSize]},
	} {
		stuck, steady := l.connect(t, c.v), l.connect(t, c.v)
		stuck.writeRaw(c.part)
		eventually(t, name+" takes memory", func() bool { return s.InFlightBytes() > 0 })
		if _, _, err := stuck.tryRead(); err == nil || isTimeout(err) {
			t.Errorf("%s: not closed: %v", name, err)
		}
		eventually(t, name+" holds nothing any more", func() bool { return s.InFlightBytes() == 0 })
		time.Sleep(320 * time.Millisecond)
		steady.works() // a quiet client is not a stuck one
		if c.v == 5 {
			steady.writeRaw(segments)
			steady.read()
			time.Sleep(320 * time.Millisecond)
			steady.works()
			eventually(t, "large buffers are given back", func() bool { return s.InFlightBytes() == 0 })
		}
	}
}

func isTimeout(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Timeout()
}

func TestConnectionBounds(t *testing.T) {
	s, addr := start(t, Options{Limits: Limits{ConnectionsMax: 3, ConnectionsPerAddressMax: 2}})
	first := connect(t, addr, 4)
	connect(t, addr, 4)
	refused := dial(t, addr, 4)
	if _, err := io.ReadAll(refused.net); err != nil && !isReset(err) {
		t.Errorf("a third connection: %v", err)
	}
	first.net.Close()
	eventually(t, "the first is gone", func() bool { return len(s.Clients()) == 1 })
	connect(t, addr, 4).works()
}

// 5,000 clients that connect and send nothing, or half a header, delay no others at the default limits, and the log
// lines about them are bounded.
func TestSilentConnectionsDelayNoClient(t *testing.T) {
	const silent = 5000
	var log bytes.Buffer
	var mu sync.Mutex
	began := time.Now()
	s, addr := start(t, Options{Limits: Limits{HandshakeTimeout: time.Hour},
		Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))})
	half := []byte{4, 0, 0} // of a header
	steady := connect(t, addr, 4)
	for i := range silent {
		c := dial(t, addr, 4)
		if i%2 == 0 {
			c.writeRaw(half)
		}
		if i%500 == 499 {
			connect(t, addr, 5).works() // to wait for the others would take an hour
			steady.works()
		}
	}
	eventually(t, "the silent ones are few", func() bool { return len(s.Clients()) <= handshakesMax+11 })
	steady.works()
	mu.Lock()
	defer mu.Unlock()
	if n := strings.Count(log.String(), "\n"); n > 60+int(time.Since(began)/time.Second) { // one a second
		t.Errorf("%d lines are logged:\n%s", n, &log)
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func TestDrainAnswersReceivedRequests(t *testing.T) {
	processor, running, open := gate()
	s, addr := start(t, Options{Processor: processor})
	busy, idle := connect(t, addr, 5), connect(t, addr, 4)
	busy.send(1, "slow")
	eventually(t, "the request runs", func() bool { return running.Load() == 1 })
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(context.Background()) }()
	idle.closed()
	if nc, err := net.Dial("tcp", addr); err == nil {
		if _, err := nc.Read(make([]byte, 1)); err == nil {
			t.Error("a new connection is served while draining")
		}
		nc.Close()
	}
	select {
	case err := <-drained:
		t.Errorf("Drain returns %v while a request runs", err)
	case <-time.After(20 * time.Millisecond):
	}
	open()
	if h, _ := busy.read(); h.Opcode != frame.OpResult {
		t.Errorf("answered by %v", h.Opcode)
	}
	busy.closed()
	if err := <-drained; err != nil {
		t.Errorf("Drain: %v", err)
	}
}

func TestDrainHasADeadline(t *testing.T) {
	cancelled := make(chan struct{})
	s, addr := start(t, Options{Processor: &fake{
		query: func(r *request.Request, _ *query.Session, _ string, _ *query.Params) (*query.Result, error) {
			<-r.Context.Done()
			close(cancelled)
			return nil, r.Context.Err()
		},
	}})
	c := connect(t, addr, 4)
	c.send(1, "forever")
	eventually(t, "the request runs", func() bool { return s.Clients()[0].Requests == 2 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain: %v", err)
	}
	<-cancelled
}

// Idle connections must cost little: a goroutine and a small buffer.
func TestIdleConnectionsAreCheap(t *testing.T) {
	const n = 1000
	s, addr := start(t, Options{})
	clients := make([]*client, n)
	before := heapInUse()
	for i := range clients {
		clients[i] = connect(t, addr, frame.Version(3+i%3))
	}
	// Half of the connections have been busy. They must not keep large buffers.
	for i := 0; i < n; i += 2 {
		for j := range 100 {
			clients[i].send(int16(j), "some statement that takes a few bytes")
		}
		for range 100 {
			clients[i].read()
		}
		clients[i].works()
	}
	eventually(t, "all is answered", func() bool { return s.InFlightBytes() == 0 })
	perConnection := (heapInUse() - before) / n
	// The client's side of this process, its own buffers included, is in it.
	if const24 := int64(24 << 10); perConnection > const24 {
		t.Errorf("an idle connection costs %d bytes", perConnection)
	}
	// Goroutines that have just become idle end soon.
	if !await.Reached(time.Minute, func() bool { return runtime.NumGoroutine() <= n+workersIdleMax+50 }) {
		t.Errorf("%d goroutines for %d idle connections", runtime.NumGoroutine(), n)
	}
	for _, c := range clients {
		c.works()
	}
}

// heapInUse returns the heap and stacks in use.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // the first only moves pools to their victim caches
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func TestServeAfterCloseFails(t *testing.T) {
	s := New(Options{Processor: &fake{}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := s.Serve(l); !errors.Is(err, ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
}

// The arithmetic of limits.go: a client that is alone is never refused.
func TestLargestFrameFitsPausedConnection(t *testing.T) {
	l := Limits{}.withDefaults()
	free := l.ConnectionBytesMax - l.ConnectionBytesMax/100*account.PausePercent
	if free < int64(l.FrameBytesMax) {
		t.Errorf("%d bytes are free when reading pauses, a frame may have %d", free, l.FrameBytesMax)
	}
	if l.ConnectionBytesMax > l.InFlightBytesMax {
		t.Error("one connection may use more than all together")
	}
}
