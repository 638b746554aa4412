package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"cqld/internal/wire"
	"cqld/query"
	"cqld/query/invalid"
	"cqld/request"
	"cqld/server/drain"
	"cqld/server/frame"
)

// beginDrain drains s until the test ends.
func beginDrain(t *testing.T, s *Server) {
	t.Helper()
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(context.Background()) }()
	eventually(t, "the server drains", func() bool {
		for _, c := range s.connections() {
			if !c.drain.active.Load() {
				return false
			}
		}
		return s.closing.Load()
	})
	t.Cleanup(func() {
		if err := <-drained; err != nil {
			t.Errorf("Drain: %v", err)
		}
	})
}

// readEnd reads answers until the end of the connection, and returns how many there were and when the first came.
func readEnd(t *testing.T, c *client) (answers int, first time.Time) {
	t.Helper()
	c.net.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		h, _, err := c.tryRead()
		if errors.Is(err, io.EOF) {
			c.net.Close()
			return answers, first
		}
		if err != nil {
			t.Fatalf("after %d answers: %v", answers, err)
		}
		if h.Opcode != frame.OpResult {
			t.Errorf("answered by %v", h.Opcode)
		}
		if answers++; answers == 1 {
			first = time.Now()
		}
	}
}

// awaitHolding waits until all connections hold their answers.
func awaitHolding(t *testing.T, s *Server) {
	t.Helper()
	eventually(t, "answers are held", func() bool {
		for _, c := range s.connections() {
			if !c.out.Holding().Held {
				return false
			}
		}
		return true
	})
}

// TestDrainSendsHeldAnswersWithTheEnd drains a server with a client that has sent two requests.
func TestDrainSendsHeldAnswersWithTheEnd(t *testing.T) {
	for _, version := range []frame.Version{4, 5} {
		inBubble(t, func(t *testing.T, l *duplexListener) {
			s := serve(t, Options{}, l)
			c := l.connect(t, version)
			beginDrain(t, s)
			awaitHolding(t, s)
			begun := time.Now()
			for stream := range int16(2) {
				c.send(stream+1, "x")
				time.Sleep(drain.HoldQuiet / 4)
			}
			answers, first := readEnd(t, c)
			if held := first.Sub(begun); answers != 2 || held < drain.HoldQuiet {
				t.Errorf("v%d: %d answers, the first after %v", version, answers, held)
			}
			if late := time.Since(first); late > 0 {
				t.Errorf("v%d: the end came %v after the answers", version, late)
			}
		})
	}
}

// A client that never stops sending is served in all phases of a drain, which ends nevertheless.
func TestDrainServesBusyClients(t *testing.T) {
	const lasts = 2 * time.Second
	inBubble(t, func(t *testing.T, l *duplexListener) {
		s := serve(t, Options{Limits: Limits{DrainTimeout: lasts}}, l)
		c := l.connect(t, 4)
		beginDrain(t, s)
		var sending sync.WaitGroup
		sending.Go(func() {
			for stream := int16(1); ; stream++ {
				if _, err := c.net.Write(envelope(4, frame.OpQuery, stream, 0, queryBody(4, "x"))); err != nil {
					return
				}
				time.Sleep(drain.Quiet / 5) // so that it never pauses
			}
		})
		defer sending.Wait()
		if answers, _ := readEnd(t, c); answers < int(lasts/drain.Quiet) {
			t.Errorf("%d requests were answered", answers)
		}
	})
}

// A client that registered for GRACEFUL_DISCONNECT receives it first, is served, and closes the connection.
func TestDrainAnnouncesTheEnd(t *testing.T) {
	inBubble(t, testDrainAnnouncesTheEnd)
}

func testDrainAnnouncesTheEnd(t *testing.T, l *duplexListener) {
	s := serve(t, Options{}, l)
	var clients [2]*client
	for i, version := range []frame.Version{4, 5} {
		clients[i] = l.connect(t, version)
		clients[i].write(frame.OpRegister, 3, 0, frame.AppendRegister(nil, frame.GracefulDisconnect))
		if h, _ := clients[i].read(); h.Opcode != frame.OpReady {
			t.Fatalf("REGISTER is answered by %v", h.Opcode)
		}
	}
	beginDrain(t, s)
	if n, _ := readEnd(t, clients[0]); n != 0 { // Cassandra sends the event from v5 on
		t.Errorf("v4: %d answers", n)
	}
	c := clients[1]
	h, body := c.read()
	if cur := wire.NewCursor(body); h.Opcode != frame.OpEvent || h.Stream != -1 ||
		frame.ConsumeEvent(&cur).Type != "GRACEFUL_DISCONNECT" || cur.Finish() != nil {
		t.Errorf("the client received %+v %q", h, body)
	}
	time.Sleep(2 * drain.WatchTime) // other connections hold answers or end meanwhile
	for _, c := range s.connections() {
		if c.out.Holding().Held {
			t.Error("answers are held")
		}
	}
	c.works()
	c.net.Close()
}

// A connection that is drained twice, by Leave and by the Drain after it, announces its end once.
func TestSecondDrainOfAConnectionHasNoEffect(t *testing.T) {
	s, addr := start(t, Options{Limits: Limits{DrainTimeout: time.Minute}})
	c := connect(t, addr, 5)
	c.write(frame.OpRegister, 3, 0, frame.AppendRegister(nil, frame.GracefulDisconnect))
	if h, _ := c.read(); h.Opcode != frame.OpReady {
		t.Fatalf("REGISTER is answered by %v", h.Opcode)
	}
	for range 2 {
		for _, conn := range s.connections() {
			conn.drain.begin()
		}
	}
	if h, _ := c.read(); h.Opcode != frame.OpEvent {
		t.Errorf("the client received %v", h.Opcode)
	}
	c.works() // nothing comes before the answer
	c.net.Close()
}

// A connection whose held answers take too much memory sends them at once.
func TestDrainHoldsLittleMemory(t *testing.T) { inBubble(t, testDrainHoldsLittleMemory) }

func testDrainHoldsLittleMemory(t *testing.T, l *duplexListener) {
	const rows = 64
	large := bytes.Repeat([]byte("x"), 64<<10)
	s := serve(t, Options{Limits: Limits{DrainHold: time.Minute, DrainTimeout: time.Minute}, Processor: &fake{
		query: func(*request.Request, *query.Session, string, *query.Params) (*query.Result, error) {
			return nil, &invalid.Error{Msg: string(large[:32<<10])}
		},
	}}, l)
	c := l.connect(t, 4)
	beginDrain(t, s)
	awaitHolding(t, s)
	for stream := range int16(rows) {
		c.send(stream+1, "x")
	}
	c.net.SetReadDeadline(time.Now().Add(drain.HoldQuiet / 2)) // before the connection ends
	for n := range rows {
		if _, _, err := c.tryRead(); err != nil {
			t.Fatalf("after %d answers: %v", n, err)
		}
	}
	c.net.Close()
}

// The end of a connection releases threads that then use the client's next one: that must not end in this moment.
func TestDrainEndsConnectionsOfAClientInSequence(t *testing.T) {
	inBubble(t, func(t *testing.T, l *duplexListener) {
		s := serve(t, Options{}, l)
		busy, idle := l.connect(t, 4), l.connect(t, 4)
		beginDrain(t, s)
		awaitHolding(t, s)
		time.Sleep(drain.HoldNoneQuiet - drain.HoldQuiet*3/2)
		busy.send(1, "x")
		if n, _ := readEnd(t, busy); n != 1 {
			t.Errorf("%d answers", n)
		}
		time.Sleep(drain.HoldQuiet * 2 / 3) // without waiting for it, the other one would end meanwhile
		idle.send(1, "x")
		if n, _ := readEnd(t, idle); n != 1 {
			t.Errorf("a request on the next connection has %d answers", n)
		}
	})
}

// TestDrainReturnsWithoutARequestThatDoesNotEnd drains a server with a request that ignores the end of its context, as
// a function that is compiled does. Drain reports it, and a later Drain succeeds once it has ended.
func TestDrainReturnsWithoutARequestThatDoesNotEnd(t *testing.T) {
	entered, end := make(chan struct{}), make(chan struct{})
	s, addr := start(t, Options{Limits: Limits{CancelTimeout: 20 * time.Millisecond}, Processor: &fake{
		query: func(*request.Request, *query.Session, string, *query.Params) (*query.Result, error) {
			close(entered)
			<-end
			return &query.Result{}, nil
		},
	}})
	connect(t, addr, 5).send(1, "x")
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var running request.StillRunning
	if err := s.Drain(ctx); !errors.As(err, &running) || running != 1 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain: %v", err)
	}
	close(end)
}
