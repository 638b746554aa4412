package server

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"cqld/internal/wire"
	"cqld/server/frame"
)

// listen makes a connection hear of nodes.
func (c *client) listen() {
	c.tb.Helper()
	c.write(frame.OpRegister, 3, 0, frame.AppendRegister(nil, frame.StatusChange|frame.TopologyChange))
	if h, _ := c.read(); h.Opcode != frame.OpReady {
		c.tb.Fatalf("REGISTER is answered by %v", h.Opcode)
	}
}

func TestLeaveEndsListenersLast(t *testing.T) { inBubble(t, testLeaveEndsListenersLast) }

func testLeaveEndsListenersLast(t *testing.T, l *duplexListener) {
	processor, running, open := gate()
	s := serve(t, Options{Processor: processor}, l)
	listener, busy, idle := l.connect(t, 5), l.connect(t, 5), l.connect(t, 4)
	listener.listen()
	busy.send(1, "slow")
	eventually(t, "the request runs", func() bool { return running.Load() == 1 })
	node := netip.MustParseAddrPort("127.0.0.2:9042")
	left := make(chan error, 1)
	go func() { left <- s.Leave(context.Background(), node) }()
	idle.closed()
	listener.net.SetReadDeadline(time.Now().Add(2 * leaveGap))
	if h, _, err := listener.tryRead(); err == nil {
		t.Errorf("a listener hears %v while a request runs", h.Opcode)
	}
	listener.net.SetReadDeadline(time.Now().Add(time.Minute))
	open()
	if h, _ := busy.read(); h.Opcode != frame.OpResult {
		t.Errorf("answered by %v", h.Opcode)
	}
	busy.closed()
	for _, c := range []*client{busy, idle} {
		c.net.Close() // which the server awaits for a while
	}
	ended := time.Now()
	h, body := listener.read()
	cur := wire.NewCursor(body)
	if e := frame.ConsumeEvent(&cur); h.Opcode != frame.OpEvent || e.Change != frame.NodeDown || e.Node != node ||
		cur.Finish() != nil {
		t.Errorf("the listener received %v %+v", h.Opcode, e)
	}
	if gap := time.Since(ended); gap != leaveGap {
		t.Errorf("the listener was notified %v after the last request's connection closed", gap)
	}
	listener.closed()
	if err := <-left; err != nil {
		t.Errorf("Leave: %v", err)
	}
}

func TestLeaveHasADeadline(t *testing.T) {
	processor, running, _ := gate()
	s, addr := start(t, Options{Processor: processor})
	listener, busy := connect(t, addr, 4), connect(t, addr, 4)
	listener.listen()
	busy.send(1, "forever")
	eventually(t, "the request runs", func() bool { return running.Load() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.Leave(ctx, netip.MustParseAddrPort("127.0.0.2:9042")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Leave: %v", err)
	}
	busy.closed()
	listener.closed()
}
