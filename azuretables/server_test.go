package azuretables

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// bench is a server with its dependencies, for tests.
type bench struct {
	t       testing.TB
	memory  *inMemory
	clock   *stillClock
	server  *Server
	address string
	conn    net.Conn
	in      *bufio.Reader
}

// patience is how long tests wait for what happens at once unless the machine is busy, or stops the process.
const patience = time.Minute

// newBench starts a server whose time limits do not matter to requests, unless change sets them.
func newBench(t testing.TB, change func(*Options)) *bench {
	b := &bench{t: t, memory: newMemory(), clock: newStillClock()}
	o := Options{Service: b.memory, Clock: b.clock, Rand: &counting{},
		Limits: Limits{ReadTimeout: time.Hour, WriteTimeout: time.Hour, NewcomerTimeout: time.Hour,
			RequestTimeout: time.Hour, QueryTimeout: time.Hour},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Accounts: []Account{{Name: DevelopmentAccount, Key: DevelopmentKey},
			{Name: "races", Key: "cmFjZXMgcmFjZXMgcmFjZXMh"}}}
	if change != nil {
		change(&o)
	}
	var err error
	if b.server, err = New(o); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.address = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- b.server.Serve(l) }()
	t.Cleanup(func() {
		if b.conn != nil {
			b.conn.Close()
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.server.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
		if err := <-served; !errors.Is(err, ErrClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return b
}

// sign returns the Authorization of a request with an account's key.
func (b *bench) sign(account, method, target, contentType string) string {
	path, query, _ := strings.Cut(target, "?")
	if first, again := strings.CutPrefix(path, "/"+account+secondarySuffix); again &&
		strings.HasPrefix(first, "/"+account) {
		path = first // as the Python SDK signs it
	}
	s := method + "\n\n" + contentType + "\n" + b.date() + "\n/" + account + path
	for _, p := range strings.Split(query, "&") {
		if comp, ok := strings.CutPrefix(p, "comp="); ok {
			s += "?comp=" + comp
		}
	}
	return "SharedKey " + account + ":" + b.hmac(account, s)
}

func (b *bench) hmac(account, s string) string {
	return hmacOf(b.server.accounts.named(account), s)
}

func (b *bench) date() string { return b.clock.Now().Format(http.TimeFormat) }

// send writes a request from its lines, and signs it unless it has a sig parameter or an Authorization header.
func (b *bench) send(text string) (*http.Response, string) {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	method, target, _ := strings.Cut(lines[0], " ")
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\n", method, target)
	has := map[string]string{}
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, ": ")
		has[strings.ToLower(name)] = value
	}
	account := DevelopmentAccount
	if host := has["host"]; host != "" && !strings.HasPrefix(host, "127.") {
		account, _, _ = strings.Cut(host, ".")
	} else if _, named := has["host"]; !named {
		lines = append(lines, "Host: 127.0.0.1:10002")
	}
	if has["authorization"] == "" && !strings.Contains(target, "sig=") && method != "OPTIONS" {
		lines = append(lines, "x-ms-date: "+b.date(), "Authorization: "+b.sign(strings.TrimSuffix(account,
			secondarySuffix), method, target, has["content-type"]))
	}
	if body != "" {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	out.WriteString(strings.Join(lines[1:], "\r\n") + "\r\n\r\n" + body)
	return b.raw(out.Bytes(), method)
}

// raw sends bytes and reads a response.
func (b *bench) raw(request []byte, method string) (*http.Response, string) {
	b.t.Helper()
	if b.conn == nil {
		c, err := net.Dial("tcp", b.address)
		if err != nil {
			b.t.Fatal(err)
		}
		b.conn, b.in = c, bufio.NewReader(c)
	}
	b.conn.SetDeadline(time.Now().Add(2 * patience))
	if _, err := b.conn.Write(request); err != nil {
		b.t.Fatal(err)
	}
	resp, err := http.ReadResponse(b.in, &http.Request{Method: method})
	if err != nil {
		b.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.Close {
		b.conn.Close()
		b.conn = nil
	}
	return resp, string(body)
}

// show formats a response like the recorded ones: headers in order, without those that always differ.
func show(resp *http.Response, body string) string {
	var lines []string
	for name, values := range resp.Header {
		switch name {
		case "Date", "X-Ms-Request-Id", "Content-Length":
			continue
		}
		for _, v := range values {
			lines = append(lines, strings.ToLower(name)+": "+v)
		}
	}
	if resp.ContentLength == 0 {
		lines = append(lines, "content-length: 0")
	}
	sort.Strings(lines)
	body = strings.ReplaceAll(strings.ReplaceAll(body, "\r\n", "\n"), "\ufeff", "<BOM>")
	return resp.Status + "\n" + strings.Join(lines, "\n") + "\n\n" + body
}

// TestRequests runs the recorded interactions and their variants: testdata/requests/*.txt.
func TestRequests(t *testing.T) {
	datadriven.Walk(t, "testdata/requests", func(t *testing.T, path string) {
		b := newBench(t, nil)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.t = t
			switch d.Cmd {
			case "request":
				resp, body := b.send(strings.ReplaceAll(d.Input, "\\n", "\r\n"))
				if resp.Header.Get("X-Ms-Request-Id") == "" || resp.Header.Get("Date") == "" {
					t.Errorf("no request id, or no date")
				}
				return show(resp, body) + "\n"
			case "advance":
				var by string
				d.ScanArgs(t, "by", &by)
				wait, err := time.ParseDuration(by)
				if err != nil {
					t.Fatal(err)
				}
				b.clock.advance(wait)
				return ""
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// newBenchWithoutListener returns a server that is accessible only through its methods.
func newBenchWithoutListener(t testing.TB) *bench {
	b := &bench{t: t, memory: newMemory(), clock: newStillClock()}
	var err error
	b.server, err = New(Options{Service: b.memory, Clock: b.clock, Rand: &counting{},
		Accounts: []Account{{Name: DevelopmentAccount, Key: DevelopmentKey}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
