package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestTheLastStatusIsTheNewest changes a status in several goroutines, each of which then reports it. No line is older
// than the line before it, so the last line is the final status.
func TestTheLastStatusIsTheNewest(t *testing.T) {
	const goroutines, changes = 8, 500
	var status atomic.Int64
	var out bytes.Buffer
	r := statusReports{out: &out, line: func() string {
		line := strconv.FormatInt(status.Load(), 10)
		runtime.Gosched() // other goroutines change and report the status before this line is written
		return line
	}}
	var changing sync.WaitGroup
	for range goroutines {
		changing.Go(func() {
			for range changes {
				status.Add(1)
				r.write()
			}
		})
	}
	changing.Wait()
	last := 0
	for line := range strings.Lines(out.String()) {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || n < last {
			t.Fatalf("line %q follows %d, %v", line, last, err)
		}
		last = n
	}
	if last != goroutines*changes {
		t.Errorf("the last line is %d, want %d", last, goroutines*changes)
	}
}

// Profiles are served for loopback addresses only, even if another host's name resolves to one.
func TestProfilesCheckTheHost(t *testing.T) {
	h := loopbackOnly(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	for host, want := range map[string]int{
		"127.0.0.1:6060": 204, "127.0.0.1": 204, "localhost:6060": 204, "LOCALHOST": 204, "[::1]:6060": 204,
		"[::1]": 204, "127.9.9.9:1": 204,
		"evil.example:6060": 403, "evil.example": 403, "192.0.2.1:6060": 403, "": 403, "127.0.0.1.evil.example": 403,
		"localhost.evil.example:6060": 403,
		"[::]:6060":                   403, "0.0.0.0:6060": 403,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, &http.Request{Method: "GET", Host: host})
		if w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
}
