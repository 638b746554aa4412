package health

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func serve(t *testing.T, c Checks) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, c, slog.New(slog.DiscardHandler))
	t.Cleanup(s.Close)
	return l.Addr().String()
}

func get(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestAnswersFollowTheChecks(t *testing.T) {
	var live, ready atomic.Pointer[error]
	check := func(p *atomic.Pointer[error]) func() error {
		return func() error {
			if err := p.Load(); err != nil {
				return *err
			}
			return nil
		}
	}
	var details atomic.Pointer[[]string]
	details.Store(&[]string{})
	at := "http://" + serve(t, Checks{Live: check(&live), Ready: check(&ready),
		Details: func() []string { return *details.Load() }})
	want := func(path string, status int, body string) {
		t.Helper()
		if gotStatus, gotBody := get(t, http.MethodGet, at+path); gotStatus != status || gotBody != body {
			t.Errorf("%s: %d %q, want %d %q", path, gotStatus, gotBody, status, body)
		}
	}
	want("/livez", 200, "ok\n")
	want("/readyz", 200, "ok\n")
	joining := errors.New("joining")
	ready.Store(&joining)
	want("/livez", 200, "ok\n")
	want("/readyz", 503, "joining\n")
	stuck := errors.New("stuck")
	live.Store(&stuck)
	want("/livez", 503, "stuck\n")
	ready.Store(nil)
	want("/readyz", 200, "ok\n")
	details.Store(&[]string{"no majority"})
	want("/readyz", 200, "ok\nno majority\n")
}

func TestOtherRequestsAreRefused(t *testing.T) {
	fine := func() error { return nil }
	at := "http://" + serve(t, Checks{Live: fine, Ready: fine})
	for _, c := range []struct {
		method, path string
		status       int
	}{{http.MethodPost, "/livez", 405}, {http.MethodGet, "/", 404}, {http.MethodGet, "/metrics", 404},
		{http.MethodHead, "/readyz", 200}} {
		if got, _ := get(t, c.method, at+c.path); got != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, got, c.status)
		}
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The server may close the connection while the request is being sent.
	_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	b, _ := io.ReadAll(conn)
	if len(b) > 0 && !strings.Contains(string(b), " 431 ") {
		t.Errorf("a header of 64 KiB: %.60q", b)
	}
}

// TestOpenConnectionsDoNotPreventProbes holds more connections open than the server accepts.
func TestOpenConnectionsDoNotPreventProbes(t *testing.T) {
	fine := func() error { return nil }
	at := serve(t, Checks{Live: fine, Ready: fine})
	var held []net.Conn
	for range connectionsMax + 10 {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\n"); err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	if status, _ := get(t, http.MethodGet, "http://"+at+"/livez"); status != 200 {
		t.Errorf("got %d", status)
	}
	if _, err := io.ReadAll(held[0]); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the oldest connection: %v", err)
	}
}
