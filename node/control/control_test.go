package control

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/auth"
	"cqld/internal/await"
)

// echo is an operation for tests.
func echo() Operation[KeyspaceArgs, KeyspaceArgs] {
	return Operation[KeyspaceArgs, KeyspaceArgs]{Name: "echo"}
}

func newServer(t *testing.T) *Server {
	s := NewServer(slog.New(slog.NewTextHandler(io.Discard, nil)), auth.AllowAll{})
	Handle(s, echo(), func(ctx context.Context, a KeyspaceArgs, report Report) (KeyspaceArgs, error) {
		switch a.Keyspace {
		case "refuse":
			return a, &Error{Refused, "not now"}
		case "fail":
			return a, errors.New("injected disk error")
		case "later":
			return a, NotSupported("waiting")
		case "wait":
			<-ctx.Done()
			return a, ctx.Err()
		}
		report(Progress{What: "echoing", Done: 1, Total: 2})
		return a, nil
	})
	t.Cleanup(s.Close)
	return s
}

func onSocket(t *testing.T) (*Client, string) {
	t.Helper()
	dir := t.TempDir()
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	newServer(t).Serve(l, "")
	return DialSocket(filepath.Join(dir, SocketName)), dir
}

func TestOperationArgumentsProgressAndResult(t *testing.T) {
	c, _ := onSocket(t)
	var heard []Progress
	got, err := Call(t.Context(), c, echo(), KeyspaceArgs{"ks"}, func(p Progress) { heard = append(heard, p) })
	if err != nil || got.Keyspace != "ks" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if len(heard) != 1 || heard[0] != (Progress{What: "echoing", Done: 1, Total: 2}) {
		t.Errorf("heard %+v", heard)
	}
}

func TestErrorsKeepTheirCode(t *testing.T) {
	c, _ := onSocket(t)
	for keyspace, want := range map[string]Error{"refuse": {Refused, "not now"},
		"fail":  {Failed, "injected disk error"},
		"later": {Unsupported, "waiting is not supported yet"}} {
		_, err := Call(t.Context(), c, echo(), KeyspaceArgs{keyspace}, nil)
		var got *Error
		if !errors.As(err, &got) || *got != want {
			t.Errorf("%s: %v, want %v", keyspace, err, want)
		}
	}
	if _, err := Call(t.Context(), c, Operation[None, None]{Name: "unheard"}, None{}, nil); err == nil ||
		!strings.Contains(err.Error(), "unknown operation") {
		t.Errorf("an unknown operation: %v", err)
	}
}

func TestOperationEndsWithClientOrServer(t *testing.T) {
	dir := t.TempDir()
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	s.Serve(l, "")
	c := DialSocket(filepath.Join(dir, SocketName))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Call(ctx, c, echo(), KeyspaceArgs{"wait"}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the client gave up and got %v", err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := Call(t.Context(), c, echo(), KeyspaceArgs{"wait"}, nil)
		ended <- err
	}()
	time.Sleep(50 * time.Millisecond)
	s.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("an operation succeeded that was cut off")
		}
	case <-time.After(time.Minute):
		t.Error("Close left an operation under way")
	}
	if _, err := os.Stat(filepath.Join(dir, SocketName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket was not removed: %v", err)
	}
}

// TestOperationsRespondDuringClose closes the server while an operation is about to respond, as the abort of a node's
// own join does.
func TestOperationsRespondDuringClose(t *testing.T) {
	dir := t.TempDir()
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	s.grace = time.Minute
	begun, release := make(chan struct{}), make(chan struct{})
	op := Operation[None, KeyspaceArgs]{Name: "slow"}
	Handle(s, op, func(ctx context.Context, _ None, _ Report) (KeyspaceArgs, error) {
		close(begun)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return KeyspaceArgs{"done"}, ctx.Err()
	})
	s.Serve(l, "")
	type result struct {
		got KeyspaceArgs
		err error
	}
	ended := make(chan result, 1)
	go func() {
		got, err := Call(t.Context(), DialSocket(filepath.Join(dir, SocketName)), op, None{}, nil)
		ended <- result{got, err}
	}()
	<-begun
	closed := make(chan struct{})
	go func() {
		s.Close()
		close(closed)
	}()
	for { // until the listener is closed
		c, err := net.Dial("unix", filepath.Join(dir, SocketName))
		if err != nil {
			break
		}
		c.Close()
	}
	close(release)
	if r := <-ended; r.err != nil || r.got.Keyspace != "done" {
		t.Errorf("got %+v, %v", r.got, r.err)
	}
	<-closed
}

func TestOnlyTheOwnerCanOpenTheSocket(t *testing.T) {
	_, dir := onSocket(t)
	info, err := os.Stat(filepath.Join(dir, SocketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, SocketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestLongDirectoriesHaveASocketToo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 60))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(dir)
	if err != nil {
		if strings.Contains(err.Error(), "set control_address") {
			t.Skip("this system has no short way to a long path, and says so: ", err)
		}
		t.Fatal(err)
	}
	newServer(t).Serve(l, "")
	if _, err := Call(t.Context(), DialSocket(filepath.Join(dir, SocketName)), echo(), KeyspaceArgs{"ks"},
		nil); err != nil {
		t.Error(err)
	}
}

func TestAddressRequiresToken(t *testing.T) {
	dir := t.TempDir()
	token, err := EnsureToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := EnsureToken(dir); err != nil || again != token {
		t.Errorf("the token changed: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	newServer(t).Serve(l, token)
	address := l.Addr().String()
	if _, err := Call(t.Context(), DialAddress(address, token), echo(), KeyspaceArgs{"ks"}, nil); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"", "x", token + "x", token[:len(token)-1]} {
		if _, err := Call(t.Context(), DialAddress(address, wrong), echo(), KeyspaceArgs{"ks"}, nil); err == nil {
			t.Errorf("token %q was accepted", wrong)
		}
	}
	resp, err := http.Get("http://" + address + "/v1/echo")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", resp.Status)
	}
}

func TestTokensAreSecret(t *testing.T) {
	dir := t.TempDir()
	if _, err := EnsureToken(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, TokenName)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureToken(dir); err == nil || !strings.Contains(err.Error(), "so other users may read it") {
		t.Errorf("a token that all can read: %v", err)
	}
	if err := os.WriteFile(path, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureToken(dir); err == nil {
		t.Error("an empty token was accepted")
	}
}

func TestLargeArgumentsAreRefused(t *testing.T) {
	c, _ := onSocket(t)
	_, err := Call(t.Context(), c, echo(), KeyspaceArgs{strings.Repeat("x", requestBytesMax)}, nil)
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("got %v", err)
	}
}

func TestTooManyOperationsAreRefused(t *testing.T) {
	c, _ := onSocket(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range operationsMax {
		go func() {
			for ctx.Err() == nil { // again if the calls below had its place
				Call(ctx, c, echo(), KeyspaceArgs{"wait"}, nil)
			}
		}()
	}
	await.Until(t, "an operation is refused", func() bool {
		_, err := Call(t.Context(), c, echo(), KeyspaceArgs{"ks"}, nil)
		return err != nil && strings.Contains(err.Error(), "too many operations")
	})
}

// recorded is an Authorizer that records the requirements and, if deny is set, denies everything.
type recorded struct {
	asked []string
	deny  bool
}

func (g *recorded) Authorize(_ context.Context, p auth.Principal, need auth.Requirement) error {
	if g.asked = append(g.asked, need.String()); g.deny {
		return &auth.Denied{Principal: p, Requirement: need}
	}
	return nil
}

// TestOperationsAndPagesAskForPermission runs a reading operation, one that changes something, and a page. A denied one
// is not run.
func TestOperationsAndPagesAskForPermission(t *testing.T) {
	for _, deny := range []bool{false, true} {
		g := &recorded{deny: deny}
		s := NewServer(slog.New(slog.NewTextHandler(io.Discard, nil)), g)
		t.Cleanup(s.Close)
		ran := 0
		count := func(context.Context, None, Report) (None, error) {
			ran++
			return None{}, nil
		}
		read := Operation[None, None](InfoOf)
		change := Drain
		Handle(s, read, count)
		Handle(s, change, count)
		s.Page("/metrics", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ }))
		for _, op := range []Operation[None, None]{read, change} {
			w := httptest.NewRecorder()
			s.route(w, httptest.NewRequest(http.MethodPost, "/v1/"+op.Name, nil), false)
			if got := strings.Contains(w.Body.String(), `"code":"denied"`); got != deny {
				t.Errorf("%s, denied %v: %s", op.Name, deny, w.Body)
			}
		}
		w := httptest.NewRecorder()
		s.route(w, httptest.NewRequest(http.MethodGet, "/metrics", nil), false)
		if (w.Code == http.StatusForbidden) != deny {
			t.Errorf("page, denied %v: %d", deny, w.Code)
		}
		if ran != map[bool]int{false: 3, true: 0}[deny] {
			t.Errorf("denied %v: %d were run", deny, ran)
		}
		want := []string{"SELECT on <mbean info>", "EXECUTE on <mbean drain>", "SELECT on <mbean metrics>"}
		if !slices.Equal(g.asked, want) {
			t.Errorf("required %q, want %q", g.asked, want)
		}
	}
}

// TestLocalOperationsNeedTheSocket checks that a client of the TCP port cannot run an operation of HandleLocal,
// although it has the token.
func TestLocalOperationsNeedTheSocket(t *testing.T) {
	s := NewServer(slog.New(slog.DiscardHandler), auth.AllowAll{})
	t.Cleanup(s.Close)
	ran := 0
	HandleLocal(s, ResetSuperuser, func(context.Context, SuperuserArgs, Report) (Superuser, error) {
		ran++
		return Superuser{}, nil
	})
	for _, local := range []bool{false, true} {
		r, w := httptest.NewRequest(http.MethodPost, "/v1/"+ResetSuperuser.Name, nil), httptest.NewRecorder()
		r.Header.Set("Authorization", "Bearer token")
		s.guard("token", local).ServeHTTP(w, r)
		if denied := strings.Contains(w.Body.String(), `"code":"denied"`); denied == local ||
			ran != map[bool]int{false: 0, true: 1}[local] {
			t.Errorf("local %v: ran %d times: %s", local, ran, w.Body)
		}
	}
}

// In Cassandra, a local user who bound the JMX registry first received the passwords of operators. Here, a node
// replaces whatever is at the path of its socket, including the target of a symbolic link, and only its own user can
// connect.
func TestCVE2020_13946_OperatorsReachTheNode(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for name, occupy := range map[string]func(path string) error{
		"a socket that another process serves": func(path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		},
		"a link": func(path string) error {
			if err := os.WriteFile(elsewhere, []byte("kept"), 0o600); err != nil {
				return err
			}
			return os.Symlink(elsewhere, path)
		},
		"a file": func(path string) error { return os.WriteFile(path, nil, 0o666) },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, SocketName)
		if err := occupy(path); err != nil {
			t.Fatal(err)
		}
		l, err := Listen(dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		newServer(t).Serve(l, "")
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
		if got, err := Call(t.Context(), DialSocket(path), echo(), KeyspaceArgs{"ks"}, nil); err != nil ||
			got.Keyspace != "ks" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if text, err := os.ReadFile(elsewhere); err != nil || string(text) != "kept" {
		t.Errorf("the target of the link is %q, %v", text, err)
	}
}
