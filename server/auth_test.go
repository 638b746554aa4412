package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/internal/memory"
	"cqld/internal/wire"
	"cqld/query"
	"cqld/query/invalid"
	"cqld/request"
	"cqld/server/frame"
)

// testAuthenticator is an Authenticator that accepts each token as a user name, and whose standings tests change.
type testAuthenticator struct {
	mu        sync.Mutex
	standings map[string]Standing
	evaluate  func(ctx context.Context) error
}

func (g *testAuthenticator) Class() string                 { return "org.apache.cassandra.auth.PasswordAuthenticator" }
func (g *testAuthenticator) Begin(netip.AddrPort) Exchange { return g }

func (g *testAuthenticator) Evaluate(ctx context.Context, token []byte) (string, bool, []byte, error) {
	if g.evaluate != nil {
		if err := g.evaluate(ctx); err != nil {
			return "", false, nil, err
		}
	}
	return string(token), true, nil, nil
}

func (g *testAuthenticator) Check(user string, client netip.AddrPort) Standing {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !client.IsValid() {
		return Standing{Ended: true}
	}
	return g.standings[user]
}

func (g *testAuthenticator) set(user string, s Standing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.standings == nil {
		g.standings = map[string]Standing{}
	}
	g.standings[user] = s
}

// logIn connects as a user.
func logIn(t *testing.T, addr string, v frame.Version, user string, options ...frame.StringPair) *client {
	t.Helper()
	c := dial(t, addr, v)
	if h, _ := c.startup(options...); h.Opcode != frame.OpAuthenticate {
		t.Fatalf("STARTUP is answered by %v", h.Opcode)
	}
	c.write(frame.OpAuthResponse, 1, 0, wire.AppendBytes(nil, []byte(user)))
	if h, body := c.read(); h.Opcode != frame.OpAuthSuccess {
		t.Fatalf("AUTH_RESPONSE is answered by %v %q", h.Opcode, body)
	}
	return c
}

func TestConnectionsOfDroppedRolesEnd(t *testing.T) {
	running, release := make(chan struct{}, 16), make(chan struct{})
	everyWay(t, func(t *testing.T, v frame.Version, options []frame.StringPair) {
		g := &testAuthenticator{}
		s, addr := start(t, Options{Authenticator: g, Processor: &fake{
			query: func(r *request.Request, _ *query.Session, text string, _ *query.Params) (*query.Result, error) {
				if text == "slow" {
					running <- struct{}{}
					select {
					case <-release:
					case <-r.Context.Done():
						return nil, r.Context.Err()
					}
				}
				return rowsOf(1, text+" by "+r.Principal.Name), nil
			},
		}})
		release = make(chan struct{})
		eve, busy, ada := logIn(t, addr, v, "eve", options...), logIn(t, addr, v, "eve", options...),
			logIn(t, addr, v, "ada", options...)
		busy.send(7, "slow")
		<-running
		g.set("eve", Standing{Ended: true})
		s.RecheckClients()
		eve.closed()
		busy.tryWrite(8, "another")
		close(release)
		busy.closedAfter(7, "slow by eve", 8)
		if _, body := ada.query("still"); !bytes.Contains(body, []byte("still by ada")) {
			t.Errorf("another role: %q", body)
		}
	})
}

// closedAfter checks that the response to a request contains a text, and that the connection then ends. The server may
// also have read another request, which it answers with an error, before or after.
func (c *client) closedAfter(answered int16, text string, refused int16) {
	c.tb.Helper()
	found := false
	for {
		h, body, err := c.tryRead()
		switch {
		case err == nil && h.Stream == answered && bytes.Contains(body, []byte(text)):
			found = true
		case err == nil && h.Stream == refused && h.Opcode == frame.OpError:
		case errors.Is(err, io.EOF) && found:
			return
		default:
			c.tb.Errorf("the connection ends with %v %q, %v; answered: %v", h, body, err, found)
			return
		}
	}
}

// tryWrite sends a query that the server may never read.
func (c *client) tryWrite(stream int16, text string) {
	body := append(wire.AppendLongString(nil, text), 0, 1, 0)
	if c.version >= frame.V5 {
		body = append(body, 0, 0, 0)
	}
	e := envelope(c.version, frame.OpQuery, stream, 0, body)
	if c.framed {
		var compressor *frame.Compressor
		if c.compression == frame.LZ4 {
			compressor = c.compressor
		}
		e = frame.AppendSegments(nil, e, compressor)
	}
	_, _ = c.net.Write(e) // the connection may have ended
}

func TestStatementsOfRefusedClients(t *testing.T) {
	g := &testAuthenticator{}
	s, addr := start(t, Options{Authenticator: g})
	refused := &invalid.Unauthorized{Msg: "You do not have access from this IP 127.0.0.1"}
	expect := func(c *client, want string) {
		t.Helper()
		c.send(3, "SELECT")
		if _, e := c.readError(); e.Code != frame.CodeUnauthorized || e.Message != want {
			t.Errorf("%+v", e)
		}
	}
	c := logIn(t, addr, frame.V5, "eve")
	if h, _ := c.query("SELECT"); h.Opcode != frame.OpResult {
		t.Error(h.Opcode)
	}
	g.set("eve", Standing{Refused: refused})
	s.RecheckClients()
	expect(c, refused.Msg)
	for _, op := range []frame.Opcode{frame.OpPrepare, frame.OpExecute, frame.OpBatch} {
		c.write(op, 4, 0, wire.AppendLongString(nil, "SELECT"))
		if _, e := c.readError(); e.Code != frame.CodeUnauthorized {
			t.Errorf("%v: %+v", op, e)
		}
	}
	// As in Cassandra, the login itself succeeds.
	expect(logIn(t, addr, frame.V4, "eve"), refused.Msg)
	g.set("eve", Standing{})
	s.RecheckClients()
	if h, _ := c.query("SELECT"); h.Opcode != frame.OpResult {
		t.Error(h.Opcode)
	}
}

// A role may be dropped after its credentials were verified and before its connection is known to have them.
func TestRoleDroppedDuringLogin(t *testing.T) {
	g := &testAuthenticator{}
	s, addr := start(t, Options{Authenticator: g})
	g.evaluate = func(context.Context) error {
		g.set("eve", Standing{Ended: true})
		s.RecheckClients()
		return nil
	}
	c := logIn(t, addr, frame.V4, "eve")
	c.tryWrite(1, "SELECT")
	c.closed()
}

// A standing that changes all the time never leaves an outdated standing in use.
func TestConcurrentRechecks(t *testing.T) {
	g := &testAuthenticator{}
	s, addr := start(t, Options{Authenticator: g})
	c := logIn(t, addr, frame.V4, "eve")
	for i := range 200 {
		want := Standing{}
		if i%2 == 0 {
			want.Refused = &invalid.Unauthorized{Msg: "no"}
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(s.RecheckClients)
		}
		wg.Go(func() {
			g.set("eve", want)
			s.RecheckClients()
		})
		wg.Wait()
		h, _ := c.query("SELECT")
		if (h.Opcode == frame.OpError) != (want.Refused != nil) {
			t.Fatalf("%d: %v, want %v", i, h.Opcode, want.Refused)
		}
	}
}

func TestAuthenticationEndsWithTheHandshake(t *testing.T) {
	g := &testAuthenticator{evaluate: func(ctx context.Context) error {
		<-ctx.Done()
		if ctx.Err() != context.DeadlineExceeded {
			return ctx.Err()
		}
		return &AuthenticationOverloaded{Message: "Too many clients wait"}
	}}
	// The time includes the steps of the client until it has sent its token.
	_, addr := start(t, Options{Authenticator: g, Limits: Limits{HandshakeTimeout: 2 * time.Second}})
	c := dial(t, addr, frame.V5)
	c.startup()
	c.write(frame.OpAuthResponse, 1, 0, wire.AppendBytes(nil, []byte("eve")))
	if _, e := c.readError(); e.Code != frame.CodeOverloaded || e.Message != "Too many clients wait" {
		t.Errorf("%+v", e)
	}
	c.closed()
}

func TestCloseEndsAuthentication(t *testing.T) {
	waiting := make(chan struct{})
	g := &testAuthenticator{evaluate: func(ctx context.Context) error {
		close(waiting)
		<-ctx.Done()
		return ctx.Err()
	}}
	s, addr := start(t, Options{Authenticator: g, Limits: Limits{HandshakeTimeout: time.Hour}})
	c := dial(t, addr, frame.V4)
	c.startup()
	c.write(frame.OpAuthResponse, 1, 0, wire.AppendBytes(nil, []byte("eve")))
	<-waiting
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Malformed AUTH_RESPONSE messages are answered by an error, and end the connection.
func TestMalformedAuthResponses(t *testing.T) {
	_, addr := start(t, Options{Authenticator: &testAuthenticator{evaluate: func(context.Context) error {
		return &BadCredentials{Message: "Password must not be null"}
	}}})
	for _, v := range []frame.Version{frame.V3, frame.V4, frame.V5, frame.V6} {
		for _, r := range []struct {
			name string
			body []byte
			code frame.ErrorCode
			text string
		}{
			{"no body", nil, frame.CodeProtocolError, "Not enough bytes"},
			{"half of a length", []byte{0, 0}, frame.CodeProtocolError, "Not enough bytes"},
			{"a token cut short", []byte{0, 0, 0, 20, 0, 'e', 'v', 'e'}, frame.CodeProtocolError, "Not enough bytes"},
			{"a length of 2 GiB", []byte{0x7f, 0xff, 0xff, 0xff}, frame.CodeProtocolError, "Not enough bytes"},
			{"null", []byte{0xff, 0xff, 0xff, 0xff}, frame.CodeBadCredentials, "Password must not be null"},
			{"a negative length", []byte{0x80, 0, 0, 0}, frame.CodeBadCredentials, "Password must not be null"},
			{"a name of 1 MB", wire.AppendBytes(nil, []byte("\x00"+strings.Repeat("u", 1_000_000)+"\x00x")),
				frame.CodeProtocolError, "too big before authentication"},
		} {
			t.Run(fmt.Sprintf("v%d/%s", v, r.name), func(t *testing.T) {
				c := dial(t, addr, v)
				c.startup()
				if len(r.body) > handshakeFrameMax && c.framed {
					c.writeLarge(r.body)
				} else {
					c.write(frame.OpAuthResponse, 1, 0, r.body)
				}
				if _, e := c.readError(); e.Code != r.code || !strings.Contains(e.Message, r.text) {
					t.Errorf("%+v", e)
				}
				c.closed()
			})
		}
	}
}

// writeLarge sends an AUTH_RESPONSE whose first segment only is read by the server.
func (c *client) writeLarge(body []byte) {
	_, _ = c.net.Write(frame.AppendSegments(nil, envelope(c.version, frame.OpAuthResponse, 1, 0, body), nil))
}

// TestRequestsBelongToRoleAndAddress shows that connections of one role share an owner of memory, that connections of
// one address do, too, and that an owner is removed with its last connection.
func TestRequestsBelongToRoleAndAddress(t *testing.T) {
	s, addr := start(t, Options{Authenticator: &testAuthenticator{}})
	for _, user := range []string{"eve", "eve", "mallory"} {
		logIn(t, addr, frame.V5, user)
	}
	owners, addresses := map[*memory.Owner]int{}, map[*memory.Owner]int{}
	for _, c := range s.connections() {
		owners[c.account.Origin().Role]++
		addresses[c.account.Origin().Address]++
	}
	eve := s.memory.Role("eve")
	if len(owners) != 2 || owners[eve] != 2 || len(addresses) != 1 || addresses[nil] > 0 || owners[nil] > 0 {
		t.Fatal(owners, addresses)
	}
	s.memory.Release(eve)
	for _, c := range s.connections() {
		c.stop()
		<-c.ended
	}
	again := s.memory.Role("eve")
	if again == eve {
		t.Error("the owner of a role without connections is kept")
	}
	s.memory.Release(again)
}
