package internodetls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cqld/internal/await"
	"cqld/internal/env"
	"cqld/internal/testclock"
	"cqld/messaging"
	"cqld/ring"
	"cqld/tlsconfig"
	"cqld/tlsconfig/authority"
)

// stillClock is a clock whose timers never run: files are read again by Reload.
type stillClock struct{ testclock.Clock }

func (*stillClock) After(time.Duration, func()) env.Timer { return never{} }

type never struct{}

func (never) Stop() bool { return true }

// pki makes certificates in a directory.
type pki struct {
	t     *testing.T
	dir   string
	clock *stillClock
	env   authority.Environment
	ca    *authority.Authority
	crl   string
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{t: t, dir: t.TempDir(), clock: &stillClock{}}
	p.env = authority.Environment{Random: rand.NewChaCha8([32]byte{1}), Now: p.clock.Now()}
	p.ca = p.authority("test CA")
	p.write("ca.pem", p.ca.CertificatePEM())
	p.revoke()
	return p
}

func (p *pki) authority(name string) *authority.Authority {
	p.t.Helper()
	ca, err := authority.New(p.env, name, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	return ca
}

func (p *pki) write(name string, content []byte) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// revoke writes the revocation list.
func (p *pki) revoke(serials ...*big.Int) {
	p.t.Helper()
	list, err := p.ca.Revoke(time.Hour, serials...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.crl = p.write("crl.pem", list)
}

func (p *pki) issue(ca *authority.Authority, r authority.Request) *authority.Pair {
	p.t.Helper()
	pair, err := ca.Issue(r)
	if err != nil {
		p.t.Fatal(err)
	}
	return pair
}

// source opens the files of a certificate.
func (p *pki) source(name string, pair *authority.Pair) *tlsconfig.Source {
	p.t.Helper()
	key, err := pair.KeyPEM()
	if err != nil {
		p.t.Fatal(err)
	}
	s, err := tlsconfig.Open(tlsconfig.Files{Certificate: p.write(name+".pem", pair.CertificatePEM()),
		PrivateKey:          p.write(name+".key", key),
		TrustedCertificates: filepath.Join(p.dir, "ca.pem"), RevocationLists: []string{p.crl}},
		tlsconfig.Options{Clock: p.clock, Logger: slog.New(slog.DiscardHandler), Name: name})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(s.Close)
	return s
}

// node returns the certificate of a node of cluster "c" at addresses.
func (p *pki) node(name string, addrs ...string) *authority.Pair {
	p.t.Helper()
	return p.issue(p.ca, authority.Node("c", name, nil, parse(addrs)))
}

func parse(addrs []string) (all []netip.Addr) {
	for _, a := range addrs {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

func (p *pki) security(o Options) *Security {
	p.t.Helper()
	o.Cluster = "c"
	s, err := New(o)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// open opens a transport that answers heartbeats of members and join requests of all.
func open(t *testing.T, id ring.NodeID, addr string, s messaging.Security) *messaging.StreamTransport {
	t.Helper()
	n := messaging.NewStreamTransport(messaging.Options{Cluster: "c", Listen: netip.MustParseAddrPort(addr),
		Limits: messaging.DefaultLimits(), Security: s})
	n.SetSelf(id)
	messaging.Register(n,
		messaging.Service{Verb: messaging.VerbHeartbeat, Name: "heartbeat",
			Handler: func(from ring.NodeID, _ []byte, respond messaging.Respond) {
				respond(fmt.Append(nil, from), nil)
			}},
		messaging.Service{Verb: messaging.VerbJoin, Name: "join",
			Any: func(from messaging.Sender, _ []byte, respond messaging.Respond) {
				respond(fmt.Append(nil, from.Member), nil)
			}})
	if err := n.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func ask(from, to *messaging.StreamTransport, verb messaging.Verb) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		p, err := from.RequestAddr(ctx, to.Addr(), verb, nil)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || ctx.Err() != nil {
			return string(p), err
		} // otherwise, the process may have been stopped for longer than a handshake may take
	}
}

// hello returns the first message of a node of version 9, which is refused with a reason after the TLS handshake.
func hello() []byte {
	b := []byte("cqld\x00\x09\x00\x04body")
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// stranger connects with a certificate, or none, sends a hello, and returns all that it receives on the TLS connection.
func stranger(t *testing.T, to netip.AddrPort, pair *authority.Pair, versions ...uint16) (received []byte) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 64, 1, 9)}}
	raw, err := d.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(time.Minute)) // a new connection takes deadlines
	config := &tls.Config{InsecureSkipVerify: true, ServerName: serverName("c")}
	if len(versions) > 0 {
		config.MinVersion, config.MaxVersion = versions[0], versions[0]
	}
	if pair != nil {
		// Not in Certificates: those are presented only if the server names their authority.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate,
			error) {
			c := pair.TLS()
			return &c, nil
		}
	}
	conn := tls.Client(raw, config)
	if _, err := conn.Write(hello()); err != nil {
		return nil
	}
	received, err = io.ReadAll(conn)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("the connection is still open")
	}
	return received
}

// A peer without a certificate of a node at its address receives nothing, and is counted by the reason.
func TestStrangersLearnNothing(t *testing.T) {
	p := newPKI(t)
	revoked := p.node("d", "127.64.1.9")
	p.revoke(revoked.Certificate.SerialNumber)
	b := open(t, 2, "127.64.1.2:0", p.security(Options{Encryption: All, VerifyEndpoint: true,
		Source: p.source("b", p.node("b", "127.64.1.2"))}))
	expired := authority.Node("c", "e", nil, parse([]string{"127.64.1.9"}))
	expired.Issued, expired.Validity = p.clock.Now().Add(-48*time.Hour), time.Hour
	for i, x := range []struct {
		reason string
		pair   *authority.Pair
	}{
		{"nocertificate", nil},
		{"untrusted", p.issue(p.authority("another CA"), authority.Node("c", "a", nil, parse([]string{"127.64.1.9"})))},
		{"expired", p.issue(p.ca, expired)},
		{"revoked", revoked},
		{"usage", p.issue(p.ca, authority.Client("c", "app"))},
		{"endpoint", p.node("a", "127.64.1.1")},
		{"endpoint", p.issue(p.ca, authority.Node("another", "a", nil, parse([]string{"127.64.1.9"})))},
		{"endpoint", p.issue(p.ca, authority.Request{Name: "x", Identity: tlsconfig.ClientIdentity("c", "x"),
			Addresses: parse([]string{"127.64.1.9"}), Server: true, Client: true})},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			before := b.Refusals()[x.reason]
			if got := stranger(t, b.Addr(), x.pair, version); len(got) > 0 {
				t.Errorf("%d, %s: received %q", i, x.reason, got)
			}
			waitFor(t, func() bool { return b.Refusals()[x.reason] == before+1 })
		}
	}
	raw, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_, _ = raw.Write(hello()) // the answer shows whether it arrived
	if got, _ := io.ReadAll(raw); len(got) > 0 {
		t.Errorf("plaintext: received %q", got)
	}
	waitFor(t, func() bool { return b.Refusals()[messaging.ReasonPlaintext] == 1 })
	if got := stranger(t, b.Addr(), p.node("y", "127.64.1.9")); len(got) == 0 {
		t.Error("a node with a certificate for its address is not answered")
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	await.Until(t, "the condition of this line", ok)
}

// Nodes act as members from the addresses of their certificates, and cannot act as others, whatever id they send.
func TestNodesActFromTheirAddresses(t *testing.T) {
	p := newPKI(t)
	node := func(id ring.NodeID, addr string, pair *authority.Pair) *messaging.StreamTransport {
		return open(t, id, addr+":0", p.security(Options{Encryption: All, VerifyEndpoint: true,
			Source: p.source(strings.ReplaceAll(addr, ".", "-"), pair)}))
	}
	a := node(1, "127.64.2.1", p.node("a", "127.64.2.1"))
	b := node(2, "127.64.2.2", p.node("b", "127.64.2.2"))
	b.SetPeers(map[ring.NodeID]netip.AddrPort{1: a.Addr()})
	if got, err := ask(a, b, messaging.VerbHeartbeat); err != nil || got != "1" {
		t.Errorf("a member: %q, %v", got, err)
	}
	// Node 3 has its own certificate, and claims to be node 1.
	forger := node(1, "127.64.2.3", p.node("c", "127.64.2.3"))
	if got, err := ask(forger, b, messaging.VerbHeartbeat); err == nil {
		t.Errorf("a forger acts as a member: %q", got)
	}
	if got, err := ask(forger, b, messaging.VerbJoin); err != nil || got != "false" {
		t.Errorf("a forger joins: %q, %v", got, err)
	}
	// It has the address of node 1, but not its certificate.
	a.Close()
	thief := node(1, "127.64.2.1", p.node("c", "127.64.2.3"))
	if _, err := ask(thief, b, messaging.VerbJoin); err == nil {
		t.Error("a node with the certificate of another address is answered")
	}
	waitFor(t, func() bool { return b.Refusals()["endpoint"] == 1 })
	if _, err := ask(b, thief, messaging.VerbJoin); err == nil ||
		!strings.Contains(err.Error(), "is for other addresses: 127.64.2.3") {
		t.Errorf("a node connects to one with the certificate of another address: %v", err)
	}
}

// A process that does not know the name of the cluster does not receive the certificate of a node, which contains it.
func TestStrangersReceiveNoCertificate(t *testing.T) {
	p := newPKI(t)
	b := open(t, 2, "127.64.1.2:0", p.security(Options{Encryption: All, VerifyEndpoint: true,
		Source: p.source("b", p.node("b", "127.64.1.2"))}))
	for i, name := range []string{"", "localhost", serverName("another cluster"), strings.ToUpper(serverName("c"))} {
		raw, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		received := 0
		conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, ServerName: name,
			VerifyConnection: func(s tls.ConnectionState) error { received = len(s.PeerCertificates); return nil }})
		if err := conn.HandshakeContext(t.Context()); err == nil || received > 0 {
			t.Errorf("%q: %v, %d certificates", name, err, received)
		}
		waitFor(t, func() bool { return b.Refusals()["cluster"] == uint64(i+1) })
	}
}

// fixedResolver resolves names without a network.
type fixedResolver map[string][]netip.Addr

func (r fixedResolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if a, ok := r[host]; ok {
		return a, nil
	}
	return nil, errors.New("no such host")
}

func TestAuthenticate(t *testing.T) {
	p := newPKI(t)
	pod := netip.MustParseAddr("10.1.2.3")
	resolver := fixedResolver{"cqld-0.cqld": {netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("::ffff:10.1.2.3")}}
	source := p.source("self", p.node("self", "127.0.0.1"))
	strict := p.security(Options{Encryption: All, VerifyEndpoint: true, Source: source, Resolver: resolver})
	loose := p.security(Options{Encryption: All, Source: source, Resolver: resolver})
	dns := func(names ...string) authority.Request { return authority.Node("c", "n", names, nil) }
	outside := func(r authority.Request) authority.Request { r.Identity = ""; return r }
	for _, x := range []struct {
		name          string
		request       authority.Request
		strict, loose bool
	}{
		{"IP", authority.Node("c", "n", nil, []netip.Addr{pod}), true, true},
		{"another IP", authority.Node("c", "n", nil, []netip.Addr{netip.MustParseAddr("10.1.2.4")}), false, true},
		{"DNS", dns("unknown", "cqld-0.cqld"), true, true},
		{"another DNS", dns("unknown"), false, true},
		{"wildcard", dns("*.cqld"), false, true},
		{"too many names", dns(append(strings.Fields(strings.Repeat("unknown ", namesResolvedMax)), "cqld-0.cqld")...),
			false, true},
		{"no identity", outside(authority.Node("c", "n", nil, []netip.Addr{pod})), true, false},
		{"no names", outside(dns()), false, false},
		{"client", authority.Client("c", "n"), false, false},
		{"another cluster", authority.Node("d", "n", nil, []netip.Addr{pod}), false, false},
	} {
		state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{p.issue(p.ca, x.request).Certificate}}
		if err := strict.Authenticate(t.Context(), state, pod); (err == nil) != x.strict {
			t.Errorf("%s with endpoint verification: %v", x.name, err)
		}
		if err := loose.Authenticate(t.Context(), state, pod); (err == nil) != x.loose {
			t.Errorf("%s without endpoint verification: %v", x.name, err)
		}
	}
}

// The place of a peer decides for rack and dc. Peers that are not members use TLS.
func TestEncryptionByPlace(t *testing.T) {
	p := newPKI(t)
	places := map[string]Place{"10.0.0.1": {SameDatacenter: true, SameRack: true}, "10.0.0.2": {SameDatacenter: true},
		"10.0.0.3": {}}
	source := p.source("self", p.node("self", "127.0.0.1"))
	for _, x := range []struct {
		encryption Encryption
		want       string // t for TLS and p for plain: same rack, same data center, another data center, not a member
	}{{None, "pppp"}, {Datacenter, "pptt"}, {Rack, "pttt"}, {All, "tttt"}} {
		s := p.security(Options{Encryption: x.encryption, Source: source,
			Place: func(a netip.Addr) (Place, bool) { pl, ok := places[a.String()]; return pl, ok }})
		got := ""
		for i := 1; i <= 4; i++ {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
			plain := s.AcceptsPlain(a)
			if plain != !s.Encrypts(netip.AddrPortFrom(a, 7000)) {
				t.Errorf("%s: connections from and to %s are treated differently", x.encryption, a)
			}
			got += map[bool]string{true: "p", false: "t"}[plain]
		}
		if got != x.want {
			t.Errorf("%s: got %s, want %s", x.encryption, got, x.want)
		}
	}
}

// In Cassandra, internode_encryption dc and rack also accepted connections without TLS from other data centers and
// racks.
func TestCVE2020_17516_PlainConnectionsAreAcceptedFromTheSamePlaceOnly(t *testing.T) {
	p := newPKI(t)
	places := map[string]Place{"127.64.3.2": {SameDatacenter: true, SameRack: true},
		"127.64.3.3": {SameDatacenter: true}, "127.64.3.4": {}}
	for i, x := range []struct {
		encryption Encryption
		// answered has 1 where a connection without TLS is answered: from .2 (same rack), .3 (same data center),
		// .4 (another), .5 (not a member).
		answered string
	}{{Rack, "1000"}, {Datacenter, "1100"}, {All, "0000"}} {
		own := fmt.Sprintf("127.64.3.%d", 100+i)
		b := open(t, 2, own+":0", p.security(Options{Encryption: x.encryption, VerifyEndpoint: true,
			Source: p.source(fmt.Sprint("cve", i), p.node("b", own)),
			Place:  func(a netip.Addr) (Place, bool) { pl, ok := places[a.String()]; return pl, ok }}))
		got := ""
		for last := 2; last <= 5; last++ {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 64, 3, byte(last))}}
			raw, err := dialer.DialContext(t.Context(), "tcp", b.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			before := b.Refusals()[messaging.ReasonPlaintext]
			_, _ = raw.Write(hello())
			_ = raw.SetReadDeadline(time.Now().Add(time.Minute))
			n, _ := raw.Read(make([]byte, 1))
			got += fmt.Sprint(n)
			if n == 0 {
				waitFor(t, func() bool { return b.Refusals()[messaging.ReasonPlaintext] == before+1 })
			}
		}
		if got != x.answered {
			t.Errorf("%s: answered %s, want %s", x.encryption, got, x.answered)
		}
	}
}
