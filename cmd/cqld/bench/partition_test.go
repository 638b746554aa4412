package bench

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// busyTable responds like a table that accepts a limited number of requests at once and refuses the others.
type busyTable struct {
	capacity         int64
	inside           atomic.Int64
	mu               sync.Mutex
	created, dropped int
	entities         map[string]bool
	refused          int
}

func (b *busyTable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if n := b.inside.Add(1); n > b.capacity {
		b.inside.Add(-1)
		b.mu.Lock()
		b.refused++
		b.mu.Unlock()
		w.WriteHeader(503)
		return
	}
	defer b.inside.Add(-1)
	time.Sleep(time.Millisecond)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/Tables"):
		b.created++
		w.WriteHeader(201)
	case r.Method == "DELETE":
		b.dropped++
		w.WriteHeader(204)
	case r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/$batch"):
		n := strings.Count(string(body), "\r\nPUT ")
		w.WriteHeader(202)
		io.WriteString(w, strings.Repeat("--c\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", n))
	case r.Method == "PUT":
		b.entities[r.URL.Path] = true
		w.WriteHeader(204)
	case r.Method == "GET":
		io.WriteString(w, "{}")
	default:
		w.WriteHeader(400)
	}
}

// command returns `cqld bench partition` with these flags, for a server.
func command(t *testing.T, server *httptest.Server, flags ...string) *partitionCommand {
	t.Helper()
	var c Commands
	k, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	key := base64.StdEncoding.EncodeToString([]byte("key"))
	if _, err := k.Parse(append([]string{"partition", "--url", server.URL, "--account", "a", "--key", key},
		flags...)); err != nil {
		t.Fatal(err)
	}
	return &c.Partition
}

func TestCurve(t *testing.T) {
	// A slow machine needs longer steps to have sixteen requests in flight at some time.
	for steps := 200 * time.Millisecond; ; steps *= 4 {
		b, lines := curve(t, steps)
		switch refused, failed := columns(lines[5]); {
		case failed != "0", refused != "0" && b.refused == 0:
			t.Fatalf("%d refusals with sixteen in flight: %s", b.refused, lines[5])
		case refused != "0":
			return
		case steps > 10*time.Second:
			t.Fatalf("no refusals with sixteen in flight: %s", lines[5])
		}
	}
}

// columns returns the numbers of refused and of failed requests in a line of a curve.
func columns(line string) (refused, failed string) {
	f := strings.Fields(line)
	return f[6], f[7]
}

// curve measures a table whose server refuses more than four requests at a time, and returns the lines of the result.
func curve(t *testing.T, steps time.Duration) (*busyTable, []string) {
	t.Helper()
	b := &busyTable{capacity: 4, entities: map[string]bool{}}
	server := httptest.NewServer(b)
	defer server.Close()
	c := command(t, server, "--rows", "250", "--steps", "1,4,16", "--step-time", steps.String(), "--backoff", "2ms",
		"--backoff-min", "1ms", "--backoff-max", "20ms", "--retries", "1000")
	var out strings.Builder
	if err := c.run(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.created != 1 || b.dropped != 1 || len(b.entities) == 0 {
		t.Errorf("%d created, %d dropped, %d written", b.created, b.dropped, len(b.entities))
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) < 7 || !strings.Contains(lines[0], "250 entities") ||
		!strings.HasPrefix(strings.TrimSpace(lines[3]), "1 ") ||
		!strings.HasPrefix(strings.TrimSpace(lines[5]), "16 ") || !strings.Contains(out.String(), "The peak is ") {
		t.Fatalf("the curve:\n%s", out.String())
	}
	if refused, failed := columns(lines[3]); refused != "0" || failed != "0" {
		t.Errorf("refusals with one in flight: %s", lines[3])
	}
	return b, lines
}

// TestTableDeletionIsRetriedWhenBusy checks that the command retries the deletion of the table while the server is
// still processing requests of the last step.
func TestTableDeletionIsRetriedWhenBusy(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked < 3 {
			w.WriteHeader(503)
			return
		}
		w.WriteHeader(204)
	}))
	defer server.Close()
	l, err := command(t, server, "--backoff", "2ms", "--backoff-min", "1ms", "--backoff-max", "20ms", "--retries",
		"5").load()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := l.drop(); err != nil || asked != 3 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

func TestInvalidLoadIsRefused(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for _, flags := range [][]string{{"--steps", "0"}, {"--steps", "5000"}, {"--step-time", "1h"}, {"--rows", "0"},
		{"--size", "40000"}, {"--reads", "101"}, {"--batch", "101"}, {"--target", "0"}, {"--backoff", "0s"}} {
		if err := command(t, server, flags...).run(context.Background(), io.Discard); err == nil ||
			!strings.HasPrefix(err.Error(), "--") {
			t.Errorf("%v: %v", flags, err)
		}
	}
	if err := command(t, server).run(context.Background(), io.Discard); err == nil ||
		!strings.Contains(err.Error(), "create table") {
		t.Errorf("a server without tables: %v", err)
	}
}
