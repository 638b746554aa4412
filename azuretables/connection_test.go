package azuretables

import (
	"net"
	"slices"
	"testing"
	"time"

	"cqld/internal/memory"
)

// deadlines is a connection that records the deadlines set on it.
type deadlines struct {
	net.Conn
	reads, writes []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.reads = append(d.reads, t)
	return nil
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.writes = append(d.writes, t)
	return nil
}
func (*deadlines) Read([]byte) (int, error)  { return 0, nil }
func (*deadlines) Write([]byte) (int, error) { return 0, nil }

// TestDeadlinesAreSetWhenTheyMatter checks that the deadline set is never later than the wanted one, and never earlier
// by more than the slack.
func TestDeadlinesAreSetWhenTheyMatter(t *testing.T) {
	var d deadlines
	c := &connection{Conn: &d, slack: time.Second}
	start := time.Unix(1e9, 0)
	want := func(after time.Duration) time.Time {
		at := start.Add(after)
		c.SetReadDeadline(at)
		c.SetWriteDeadline(at.Add(time.Hour))
		return at
	}
	for i, step := range []struct {
		after time.Duration
		set   bool
	}{
		{5 * time.Minute, true}, {5*time.Minute + time.Second, false}, {5*time.Minute + time.Second + 1, true}, // later
		{30 * time.Second, true}, {30*time.Second - 1, true}, // earlier by any amount
		{30 * time.Second, false}, {5 * time.Minute, true},
	} {
		at := want(step.after)
		reads, writes := len(d.reads), len(d.writes)
		c.Read(nil)
		c.Write(nil)
		if set := len(d.reads) > reads; set != step.set || set && !d.reads[reads].Equal(at) {
			t.Errorf("step %d: read deadlines %v", i, d.reads)
		}
		if set := len(d.writes) > writes; set != step.set || set && !d.writes[writes].Equal(at.Add(time.Hour)) {
			t.Errorf("step %d: write deadlines %v", i, d.writes)
		}
	}
	reads := len(d.reads)
	want(time.Hour) // fasthttp sets it, and then finds all it needs in its buffer
	want(2 * time.Hour)
	if len(d.reads) > reads {
		t.Error("a deadline was set without a pending request")
	}
	c.SetDeadline(time.Time{})
	if c.Read(nil); !d.reads[reads].IsZero() {
		t.Error("the deadline was not taken away")
	}
}

// TestSilentClientsAreDisconnected checks that the server closes connections after the timeout if the client sends
// nothing more, or stops within a request.
func TestSilentClientsAreDisconnected(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Limits = Limits{ReadTimeout: 50 * time.Millisecond, IdleTimeout: 100 * time.Millisecond,
			WriteTimeout: time.Second}
	})
	for _, sent := range []string{
		"", "GET / HTTP/1.1\r\nHost: a\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET",
	} {
		c, err := net.Dial("tcp", b.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte(sent)); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(patience))
		buf := make([]byte, 4096)
		for err = nil; err == nil; {
			_, err = c.Read(buf)
		}
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			t.Errorf("%q: the connection stays open", sent)
		}
	}
}

// written is a connection that records the sizes of writes.
type written struct {
	deadlines
	sizes []int
}

func (w *written) Write(b []byte) (int, error) {
	w.sizes = append(w.sizes, len(b))
	return len(b), nil
}

// TestPartsOfResponses writes a response of 1 MiB at once, and in small parts while memory is scarce.
func TestPartsOfResponses(t *testing.T) {
	pool := memory.New(memory.Options{Limits: memory.Limits{Bytes: 64 << 20, Reserve: 64 << 20}})
	w := &written{}
	c := &connection{Conn: w, carrier: &carrier{server: &Server{o: Options{Memory: pool}}}}
	body := make([]byte, 1<<20)
	if n, err := c.Write(body); n != len(body) || err != nil || !slices.Equal(w.sizes, []int{len(body)}) {
		t.Errorf("%d bytes in parts of %v, %v", n, w.sizes, err)
	}
	var request memory.Account
	pool.Open(&request, memory.Origin{}, nil)
	defer request.Close()
	if !request.TryGrow(33 << 20) {
		t.Fatal("no memory")
	}
	w.sizes = nil
	want := slices.Repeat([]int{writePart}, len(body)/writePart)
	if n, err := c.Write(body); n != len(body) || err != nil || !slices.Equal(w.sizes, want) {
		t.Errorf("%d bytes in parts of %v, %v while memory is scarce", n, w.sizes, err)
	}
}
