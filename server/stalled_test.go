package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"cqld/internal/memory"
	"cqld/query"
	"cqld/request"
	"cqld/server/frame"
)

// busyDisk returns a processor whose writes wait for bytes of a pool, as writes of package request wait for the disk,
// and a server that uses it. The pool is full until free is called.
func busyDisk(t *testing.T) (s *Server, addr string, free func()) {
	t.Helper()
	room := request.RoomForWrites(1<<20, memory.Options{Limits: memory.Limits{}})
	s, addr = start(t, Options{Limits: Limits{InFlightBytesMax: 256 << 20},
		Processor: &fake{query: func(r *request.Request, _ *query.Session, text string, _ *query.Params) (*query.Result,
			error) {
			if !strings.HasPrefix(text, "INSERT") {
				return void()
			}
			var a memory.Account
			room.Open(&a, memory.Origin{}, r.Memory.Flow())
			defer a.Close()
			if err := a.Grow(r.Context, 65<<10); err != nil {
				return nil, err
			}
			return void()
		}}})
	var all [2]memory.Account
	room.Open(&all[0], memory.Origin{}, nil)
	for all[0].TryGrow(32 << 10) {
	}
	room.Open(&all[1], memory.Origin{}, nil)
	if err := all[1].Grow(context.Background(), room.Limits().Reserve); err != nil {
		t.Fatal(err)
	}
	return s, addr, func() {
		all[0].Close()
		all[1].Close()
	}
}

// floods sends n INSERTs of 32 KiB, and returns when they are sent or the connection has failed.
func floods(c *client, n int) {
	text := "INSERT " + strings.Repeat("x", 32<<10)
	for i := range n {
		b := envelope(c.version, frame.OpQuery, int16(i), 0, queryBody(c.version, text))
		if _, err := c.net.Write(b); err != nil {
			return
		}
	}
}

// stall lets a client send n writes while the disk is busy, and returns when its reader waits.
func stall(t *testing.T, s *Server, addr string, n int) *client {
	t.Helper()
	c := connect(t, addr, 4)
	go floods(c, n)
	eventually(t, "the reader waits", func() bool {
		for _, conn := range s.connections() {
			if conn.parking.stalled() && conn.account.Waiting() {
				return true
			}
		}
		return false
	})
	return c
}

// The reader of a connection whose writes wait for the disk waits as well: the client is slowed down before it has
// filled the memory of requests, other connections are served, and all writes are answered.
func TestReaderWaitsForTheDisk(t *testing.T) {
	const writes = 1_500
	s, addr, free := busyDisk(t)
	c := stall(t, s, addr, writes)
	other := connect(t, addr, 5)
	for range 20 {
		other.works()
		time.Sleep(5 * time.Millisecond)
	}
	if n := s.memory.Used(); n > 24<<20 {
		t.Errorf("%d MiB were read of %d MiB while the disk was busy", n>>20, writes*32>>10)
	}
	free()
	for range writes {
		if h, _ := c.read(); h.Opcode != frame.OpResult {
			t.Fatalf("a write was answered with %v", h.Opcode)
		}
	}
	c.net.Close()
	eventually(t, "nothing is reserved", func() bool { return s.memory.Used() == 0 })
}

// A server whose readers wait for the disk is closed, and drained, as fast as another one.
func TestServerEndsWhileReadersWaitForTheDisk(t *testing.T) {
	for _, drain := range []bool{false, true} {
		s, addr, free := busyDisk(t)
		c := stall(t, s, addr, 1_000)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		began := time.Now()
		if drain {
			_ = s.Drain(ctx)
		}
		cancel()
		_ = s.Close()
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("drain %v: the server has ended after %v", drain, took)
		}
		c.net.Close()
		free()
	}
}
