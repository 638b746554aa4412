package output

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"cqld/internal/guard"
	"cqld/internal/memory"
	"cqld/server/account"
	"cqld/server/buffer"
)

// connection counts the reports of a queue.
type connection struct {
	failed  chan error
	written chan struct{}
}

func (c connection) Fail(err error) { c.failed <- err }

func (c connection) Executing() int { return 0 }

func (c connection) Written() { c.written <- struct{}{} }

// open returns a queue of 1 MiB of memory, its connection, and the socket of its client.
func open(t *testing.T) (q *Queue, pool *memory.Pool, at connection, client net.Conn) {
	t.Helper()
	pool = memory.New(memory.Options{Limits: memory.Limits{Bytes: 1 << 20, Reserve: 1 << 19}})
	a := new(account.Account)
	a.Init(pool, 1<<20)
	ours, client := net.Pipe()
	t.Cleanup(func() {
		ours.Close()
		client.Close()
	})
	q, at = new(Queue), connection{make(chan error, 8), make(chan struct{}, 64)}
	q.Init(&Config{
		Buffers:      new(buffer.Pool),
		Memory:       pool,
		Guard:        guard.New(slog.New(slog.DiscardHandler)),
		WriteTimeout: time.Minute,
	}, ours, a, at)
	return q, pool, at, client
}

// receive reads n bytes.
func receive(t *testing.T, client net.Conn, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(client, b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEnvelopesAreSentInOrder(t *testing.T) {
	q, pool, _, client := open(t)
	q.Hold()
	large := bytes.Repeat([]byte("l"), buffer.Large+1)
	var want []byte
	for _, part := range [][]byte{[]byte("a"), []byte("b"), large, []byte("c")} {
		want = append(want, part...)
		owned := len(part) > buffer.Large
		charge, ok := pool.Reserve(int64(len(part)))
		if taken := q.Enqueue(bytes.Clone(part), charge, owned); !ok || taken != owned {
			t.Errorf("an envelope of %d bytes is kept: %v", len(part), taken)
		}
	}
	if got := q.Bytes(); got != int64(len(want)) {
		t.Errorf("%d bytes wait, want %d", got, len(want))
	}
	q.Serve()
	if got := receive(t, client, len(want)); !bytes.Equal(got, want) {
		t.Error("the envelopes differ from the sent ones, or in their order")
	}
	if q.Close() {
		t.Error("envelopes were pending after all were read")
	}
	if q.Bytes() != 0 || pool.Used() != 0 {
		t.Errorf("%d bytes wait and %d are reserved after all was sent", q.Bytes(), pool.Used())
	}
}

// Release sends only answers that have been held for long enough, and holds later ones.
func TestReleaseHoldsLaterAnswers(t *testing.T) {
	q, _, at, client := open(t)
	q.Hold()
	q.Send([]byte("first"), memory.Held{})
	if q.Release(time.Hour); q.Holding().Since.IsZero() || !q.Holding().Released.IsZero() {
		t.Errorf("%+v", q.Holding())
	}
	q.Release(0)
	if got := receive(t, client, 5); string(got) != "first" {
		t.Errorf("%q was sent", got)
	}
	<-at.written // by the chunk
	<-at.written // by the end of the flusher
	q.Send([]byte("second"), memory.Held{})
	if h := q.Holding(); !h.Held || h.Since.IsZero() || h.Released.IsZero() {
		t.Errorf("%+v", h)
	}
	go q.Close()
	if got := receive(t, client, 6); string(got) != "second" {
		t.Errorf("%q was sent", got)
	}
}

// Held answers that take much memory are sent at once.
func TestHeldAnswersAreBounded(t *testing.T) {
	q, _, _, client := open(t)
	q.Hold()
	n := 0
	for part := bytes.Repeat([]byte("x"), 30<<10); q.Holding().Held; n += len(part) {
		q.Send(part, memory.Held{})
	}
	if n <= heldBytesMax || n > heldBytesMax+30<<10 {
		t.Errorf("%d bytes were held", n)
	}
	receive(t, client, n)
}

// A queue whose client has disconnected reports it once, and keeps neither envelopes nor memory.
func TestBrokenQueueKeepsNothing(t *testing.T) {
	q, pool, at, client := open(t)
	client.Close()
	q.Send([]byte("lost"), memory.Held{})
	if err := <-at.failed; err == nil {
		t.Error("the connection failed without an error")
	}
	q.Break()
	q.Send([]byte("later"), memory.Held{})
	q.Close()
	if q.Bytes() != 0 || pool.Used() != 0 {
		t.Errorf("%d bytes wait and %d are reserved", q.Bytes(), pool.Used())
	}
}
