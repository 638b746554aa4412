package server

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"cqld/query"
	"cqld/request"
	"cqld/server/frame"
)

// The length in the first frame of a client that is not authenticated was believed by Scylla, and allocated. Here, a
// length beyond the bound of the handshake ends the connection, and none takes memory.
func TestScylla4620_4366_FirstFrameOfAnyLengthTakesNoMemory(t *testing.T) {
	s, addr := start(t, Options{})
	var clients []*client
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, v := range []frame.Version{3, 4, 5} {
		for _, opcode := range []frame.Opcode{frame.OpStartup, frame.OpOptions, frame.OpQuery, frame.OpAuthResponse,
			0x7f} {
			for _, length := range []uint32{handshakeFrameMax + 1, 256<<20 + 1, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
				c := dial(t, addr, v)
				c.writeRaw(lengthAt(envelope(v, opcode, 1, 0, nil), length))
				if _, e := c.readError(); e.Code != frame.CodeProtocolError {
					t.Errorf("v%d, %v, length %d: %+v", v, opcode, length, e)
				}
				clients = append(clients, c)
			}
		}
	}
	for _, c := range clients { // TestBadHandshakes shows that the server closes them
		c.net.Close()
	}
	eventually(t, "the replies are released", func() bool { return s.InFlightBytes() == 0 })
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("75 connections allocated %d MiB", grown>>20)
	}
}

// Scylla gave the memory of a request back before its response was sent, so that clients that do not read exhausted it.
// Here, it is in use until the client has received the response.
func TestScylla1708_MemoryIsInUseUntilTheResponseIsSent(t *testing.T) {
	const size = 8 << 20 // more than the sockets' buffers
	large := rowsOf(1, strings.Repeat("x", size))
	processor := &fake{query: func(*request.Request, *query.Session, string, *query.Params) (*query.Result, error) {
		copied := *large
		return &copied, nil
	}}
	s, addr := start(t, Options{Processor: processor})
	c := connect(t, addr, frame.V4)
	for i := range int16(2) {
		c.send(i, "SELECT")
	}
	eventually(t, "the responses are in flight", func() bool { return s.InFlightBytes() > size })
	time.Sleep(20 * time.Millisecond)
	if n := s.InFlightBytes(); n < size {
		t.Errorf("%d bytes are in flight although the client has read nothing", n)
	}
	for range 2 {
		c.read()
	}
	eventually(t, "nothing is in flight", func() bool { return s.InFlightBytes() == 0 })
}
