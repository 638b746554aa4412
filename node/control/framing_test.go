package control

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"cqld/auth"
)

// Requests that a proxy may understand in another way are answered with 400.
func TestAmbiguousHeadersAreRefused(t *testing.T) {
	s := NewServer(slog.New(slog.NewTextHandler(io.Discard, nil)), auth.AllowAll{})
	s.Page("/metrics", http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(l, "")
	t.Cleanup(s.Close)
	for lines, want := range map[string]int{
		"Host: localhost\r\n": 204, "Host: localhost\r\nContent-Length : 1\r\n": 400, "Host: a\r\nHost: a\r\n": 400,
		"": 400,
		"Host: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n": 400,
		"Host: localhost\r\nTransfer-Encoding : chunked\r\n":            400,
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\n%s\r\n", lines)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		c.Close()
		if resp.StatusCode != want {
			t.Errorf("%q: %d, want %d", lines, resp.StatusCode, want)
		}
	}
}

// A page refers to the node's parts, so Close waits for it even after the grace period.
func TestCloseWaitsForPages(t *testing.T) {
	s := NewServer(slog.New(slog.DiscardHandler), auth.AllowAll{})
	s.grace = time.Millisecond
	began, end := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	s.Page("/metrics", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(began)
		<-end
		ended.Store(true)
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(l, "")
	go func() {
		if resp, err := http.Get("http://" + l.Addr().String() + "/metrics"); err == nil {
			resp.Body.Close()
		}
	}()
	<-began
	time.AfterFunc(50*time.Millisecond, func() { close(end) })
	s.Close()
	if !ended.Load() {
		t.Error("Close returned while a page was read")
	}
}
