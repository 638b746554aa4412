package messaging

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cqld/ring"
	"cqld/tlsconfig/authority"
)

// suiteTLS is the environment variable that makes the tests of this package use TLS.
const suiteTLS = "CQLD_TEST_MESSAGING_TLS"

// suiteSecurity returns the Security of transports whose tests run with and without TLS: a testSecurity, or nil.
func suiteSecurity(t testing.TB) Security {
	if os.Getenv(suiteTLS) == "" {
		return nil
	}
	return newTestSecurity(t)
}

// suiteDial connects to a node like a peer, up to the hello.
func suiteDial(t testing.TB, to netip.AddrPort) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	if s := suiteSecurity(t); s != nil {
		conn = tls.Client(conn, s.Client(to))
	}
	return conn
}

// TestSuiteOverTLS runs the tests of this package over TLS.
func TestSuiteOverTLS(t *testing.T) {
	if os.Getenv(suiteTLS) != "" {
		t.Skip("this process runs over TLS")
	}
	args := []string{"-test.skip", "^(TestSuiteOverTLS|Fuzz.*|TestWorkers.*)$"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), suiteTLS+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// testSecurity is a Security whose nodes have one certificate. The fields are the answers of its methods.
type testSecurity struct {
	config       *tls.Config
	plain, back  bool
	clear        bool // connections to peers are not encrypted at first
	refuse       atomic.Pointer[error]
	authenticate atomic.Int64 // calls
}

func (s *testSecurity) Server() *tls.Config { return s.config }

func (s *testSecurity) Client(to netip.AddrPort) *tls.Config {
	c := s.config.Clone()
	c.ServerName = to.Addr().String()
	return c
}

func (s *testSecurity) Encrypts(netip.AddrPort) bool { return !s.clear }

func (s *testSecurity) FallsBack(netip.AddrPort) bool { return s.back }

func (s *testSecurity) AcceptsPlain(netip.Addr) bool { return s.plain }

func (s *testSecurity) Authenticate(context.Context, tls.ConnectionState, netip.Addr) error {
	s.authenticate.Add(1)
	if err := s.refuse.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *testSecurity) Revoked(tls.ConnectionState) error {
	if err := s.refuse.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *testSecurity) Reason(err error) string {
	if errors.Is(err, errTestRefused) {
		return "test"
	}
	return ""
}

var errTestRefused = errors.New("refused by the test")

// newTestSecurity returns a Security with TLS for the addresses of these tests. All have the same authority.
func newTestSecurity(t testing.TB) *testSecurity {
	t.Helper()
	ca, err := authority.New(authority.Environment{Random: rand.NewChaCha8([32]byte{}),
		Now: time.Now().Truncate(time.Hour)}, "tests", 0)
	if err != nil {
		t.Fatal(err)
	}
	addrs := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	for i := range byte(10) {
		addrs = append(addrs, netip.AddrFrom4([4]byte{127, 63, 1, i}))
	}
	pair, err := ca.Issue(authority.Node("c", "node", nil, addrs))
	if err != nil {
		t.Fatal(err)
	}
	return &testSecurity{config: &tls.Config{Certificates: []tls.Certificate{pair.TLS()}, RootCAs: ca.Pool(),
		ClientCAs:  ca.Pool(),
		ClientAuth: tls.RequireAndVerifyClientCert, DynamicRecordSizingDisabled: true}}
}

// openSecured opens a node with a Security at 127.0.0.1 that echoes heartbeats.
func openSecured(t *testing.T, id ring.NodeID, s Security) *StreamTransport {
	t.Helper()
	n := NewStreamTransport(Options{Cluster: "c", Listen: netip.MustParseAddrPort("127.0.0.1:0"),
		Limits: DefaultLimits(), Security: s})
	n.SetSelf(id)
	n.Handle(Service{Verb: VerbHeartbeat, Any: func(_ Sender, p []byte, respond Respond) { respond(p, nil) }})
	if err := n.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// askOnce sends one request over its own connection.
func askOnce(t *testing.T, from, to *StreamTransport) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		_, err := from.RequestAddr(ctx, to.Addr(), VerbHeartbeat, []byte("x"))
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || ctx.Err() != nil {
			return err
		} // otherwise, the process may have been stopped for longer than a handshake may take
	}
}

// Every combination of what two nodes require connects, or is refused for a known reason.
func TestSecurityOfBothSides(t *testing.T) {
	tls := newTestSecurity(t)
	with := func(plain, back, clear bool) Security {
		return &testSecurity{config: tls.config, plain: plain, back: back, clear: clear}
	}
	required, optional, prepared := with(false, false, false), with(true, true, false), with(true, false, true)
	for _, x := range []struct {
		name     string
		from, to Security
		reason   string // of the refusal
		side     func(from, to *StreamTransport) *refusals
	}{
		{"required to required", required, required, "", nil},
		{"required to optional", required, optional, "", nil},
		{"optional to required", optional, required, "", nil},
		{"optional to none", optional, nil, "", nil},
		{"none to optional", nil, optional, "", nil},
		{"prepared to none", prepared, nil, "", nil},
		{"prepared to optional", prepared, optional, "", nil},
		{"required to prepared", required, prepared, "", nil},
		{"prepared to required", prepared, required, "", nil},
		{"required to none", required, nil, ReasonNoTLS, func(_, to *StreamTransport) *refusals { return to.refused }},
		{"none to required", nil, required, ReasonPlaintext,
			func(_, to *StreamTransport) *refusals { return to.refused }},
	} {
		from, to := openSecured(t, 1, x.from), openSecured(t, 2, x.to)
		err := askOnce(t, from, to)
		if (err == nil) != (x.reason == "") {
			t.Errorf("%s: %v", x.name, err)
		}
		if x.side != nil {
			waitFor(t, func() bool { return x.side(from, to).reasons()[x.reason] == 1 })
		}
	}
}

// A connection whose certificate does not belong to its address ends on both sides before the hello.
func TestAuthenticateDecides(t *testing.T) {
	refusing, trusting := newTestSecurity(t), newTestSecurity(t)
	trusting.config = refusing.config
	refusing.refuse.Store(&errTestRefused)
	strict, open := openSecured(t, 1, refusing), openSecured(t, 2, trusting)
	for _, x := range []struct{ from, to *StreamTransport }{{strict, open}, {open, strict}} {
		if err := askOnce(t, x.from, x.to); err == nil {
			t.Errorf("node %d to %d: no error", x.from.self(), x.to.self())
		}
	}
	waitFor(t, func() bool { return strict.refused.reasons()["test"] == 1 })
	if err := askOnce(t, strict, open); !strings.Contains(err.Error(), errTestRefused.Error()) {
		t.Errorf("the side that refuses reports %v", err)
	}
}

// Connections of a peer whose certificate is revoked end, in both directions, and the others stay open.
func TestCloseRevoked(t *testing.T) {
	revoking, other := newTestSecurity(t), newTestSecurity(t)
	a, b := openSecured(t, 1, revoking), openSecured(t, 2, other)
	know(a, b)
	know(b, a)
	want := Connections{FromEncrypted: 1, ToEncrypted: 1}
	waitFor(t, func() bool { return a.Connections() == want && b.Connections() == want })
	a.CloseRevoked()
	if got := a.Connections(); got != want {
		t.Errorf("without a revocation: %+v", got)
	}
	revoking.refuse.Store(&errTestRefused)
	a.CloseRevoked()
	waitFor(t, func() bool { return a.Connections() == Connections{} && b.Connections() == Connections{} })
}
