package tlsconfig_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/internal/env"
	"cqld/internal/testclock"
	"cqld/tlsconfig"
	"cqld/tlsconfig/authority"
)

// pki is a certificate authority with a directory and a clock.
type pki struct {
	t     testing.TB
	dir   string
	clock *stillClock
	env   authority.Environment
	ca    *authority.Authority
	log   *bytes.Buffer
}

// stillClock is a clock whose timers run only when a test calls Reload.
type stillClock struct{ testclock.Clock }

func (*stillClock) After(time.Duration, func()) env.Timer { return never{} }

type never struct{}

func (never) Stop() bool { return true }

func newPKI(t testing.TB) *pki {
	t.Helper()
	p := &pki{t: t, dir: t.TempDir(), clock: &stillClock{}, log: &bytes.Buffer{}}
	p.env = authority.Environment{Random: rand.NewChaCha8([32]byte{1}), Now: p.clock.Now()}
	p.ca = p.authority("test CA")
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

// write puts a file in the directory and returns its path.
func (p *pki) write(name string, content []byte) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func (p *pki) issue(ca *authority.Authority, r authority.Request) *authority.Pair {
	p.t.Helper()
	pair, err := ca.Issue(r)
	if err != nil {
		p.t.Fatal(err)
	}
	return pair
}

func nodeRequest() authority.Request {
	return authority.Node("Test Cluster", "n1", []string{"n1.example"}, []netip.Addr{netip.MustParseAddr("127.0.0.1")})
}

// files writes a pair and the CA, and returns the Files.
func (p *pki) files(pair *authority.Pair) tlsconfig.Files {
	p.t.Helper()
	key, err := pair.KeyPEM()
	if err != nil {
		p.t.Fatal(err)
	}
	return tlsconfig.Files{
		Certificate: p.write("node.pem", pair.CertificatePEM()), PrivateKey: p.write("node.key", key),
		TrustedCertificates: p.write("ca.pem", p.ca.CertificatePEM()),
	}
}

func (p *pki) open(f tlsconfig.Files) *tlsconfig.Source {
	p.t.Helper()
	s, err := tlsconfig.Open(f, tlsconfig.Options{Clock: p.clock, Logger: slog.New(slog.NewTextHandler(p.log, nil)),
		Name: "test"})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(s.Close)
	return s
}

// handshake connects a client to a server, and returns the server's state and the errors of both.
func handshake(t *testing.T, client, server *tls.Config) (state tls.ConnectionState, clientErr, serverErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		nc, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer nc.Close()
		c := tls.Server(nc, server)
		err = c.HandshakeContext(ctx)
		state = c.ConnectionState()
		if err == nil {
			_, err = c.Write([]byte("hello"))
		}
		done <- err
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := tls.Client(nc, client)
	if clientErr = c.HandshakeContext(ctx); clientErr == nil {
		_, clientErr = io.ReadFull(c, make([]byte, 5)) // TLS 1.3 clients learn of a refusal here
	}
	nc.Close()
	return state, clientErr, <-done
}

func TestServersAndClientsVerifyEachOther(t *testing.T) {
	p := newPKI(t)
	s := p.open(p.files(p.issue(p.ca, nodeRequest())))
	other := p.authority("other CA")
	good := p.issue(p.ca, authority.Client("Test Cluster", "app"))
	expired := authority.Client("Test Cluster", "old")
	expired.Issued = p.clock.Now().Add(-100 * 24 * time.Hour)
	for name, c := range map[string]struct {
		pair *authority.Pair
		auth tlsconfig.ClientAuth
		want tlsconfig.Reason // "" means accepted
	}{
		"no certificate, not asked for": {nil, tlsconfig.ClientAuthNone, ""},
		"no certificate, optional":      {nil, tlsconfig.ClientAuthOptional, ""},
		"no certificate, required":      {nil, tlsconfig.ClientAuthRequired, tlsconfig.ReasonNoCertificate},
		"certificate, optional":         {good, tlsconfig.ClientAuthOptional, ""},
		"certificate, required":         {good, tlsconfig.ClientAuthRequired, ""},
		"wrong CA, optional": {p.issue(other, authority.Client("c", "x")), tlsconfig.ClientAuthOptional,
			tlsconfig.ReasonUntrusted},
		"wrong CA, required": {p.issue(other, authority.Client("c", "x")), tlsconfig.ClientAuthRequired,
			tlsconfig.ReasonUntrusted},
		"expired": {p.issue(p.ca, expired), tlsconfig.ClientAuthRequired,
			tlsconfig.ReasonExpired},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			client := &tls.Config{RootCAs: p.ca.Pool(), ServerName: "n1.example", Time: p.clock.Now,
				MinVersion: version, MaxVersion: version}
			if c.pair != nil {
				// A client sends a certificate whatever authorities the server names.
				pair := c.pair.TLS()
				client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate,
					error) {
					return &pair, nil
				}
			}
			state, clientErr, serverErr := handshake(t, client, s.Server(tlsconfig.Policy{ClientAuth: c.auth}))
			if c.want == "" {
				if clientErr != nil || serverErr != nil {
					t.Errorf("%s: %v, %v", name, clientErr, serverErr)
				}
				if asked := c.auth != tlsconfig.ClientAuthNone; (len(state.VerifiedChains) > 0) != (asked &&
					c.pair != nil) {
					t.Errorf("%s: %d verified chains", name, len(state.VerifiedChains))
				}
				continue
			}
			if clientErr == nil || serverErr == nil || tlsconfig.ReasonOf(serverErr) != c.want {
				t.Errorf("%s: %v, %v", name, clientErr, serverErr)
			}
		}
	}
}

func TestClientsVerifyServers(t *testing.T) {
	p := newPKI(t)
	s := p.open(p.files(p.issue(p.ca, nodeRequest())))
	server := s.Server(tlsconfig.Policy{ClientAuth: tlsconfig.ClientAuthRequired})
	refused := errors.New("another node")
	for name, c := range map[string]struct {
		policy tlsconfig.Policy
		want   string
	}{
		"DNS name":   {tlsconfig.Policy{ServerName: "n1.example"}, ""},
		"address":    {tlsconfig.Policy{ServerName: "127.0.0.1"}, ""},
		"wrong name": {tlsconfig.Policy{ServerName: "n2.example"}, "not n2.example"},
		"wrong IP":   {tlsconfig.Policy{ServerName: "127.0.0.2"}, "not 127.0.0.2"},
		"no name":    {tlsconfig.Policy{}, "name of the server is not known"},
		"any name":   {tlsconfig.Policy{AnyName: true}, ""},
		"verify": {tlsconfig.Policy{AnyName: true, Verify: func(*x509.Certificate) error { return refused }},
			"another node"},
		"too long": {tlsconfig.Policy{AnyName: true, MaxValidity: 24 * time.Hour},
			"is issued for 2160h5m0s, and at most 24h0m0s are allowed"},
		"ends soon": {tlsconfig.Policy{AnyName: true, MinValidity: 91 * 24 * time.Hour},
			"expires in 2160h0m0s, and must be valid for 2184h0m0s"},
		"TLS 1.2": {tlsconfig.Policy{AnyName: true, MaxVersion: tls.VersionTLS12}, ""},
		"one cipher": {tlsconfig.Policy{AnyName: true, MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}, ""},
		"CBC ciphers": {tlsconfig.Policy{AnyName: true, MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}}, "handshake failure"},
		"RSA ciphers": {tlsconfig.Policy{AnyName: true, MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}}, "handshake failure"},
	} {
		state, clientErr, serverErr := handshake(t, s.Client(c.policy), server)
		if c.want == "" {
			if clientErr != nil || serverErr != nil {
				t.Errorf("%s: %v, %v", name, clientErr, serverErr)
			} else if node, ok := tlsconfig.Node(state.PeerCertificates[0], "Test Cluster"); !ok || node != "n1" {
				t.Errorf("%s: the peer is %q", name, node)
			}
		} else if clientErr == nil || !strings.Contains(clientErr.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, clientErr, c.want)
		}
	}
	untrusting := &tls.Config{RootCAs: p.authority("other CA").Pool(), ServerName: "n1.example", Time: p.clock.Now}
	if _, _, serverErr := handshake(t, untrusting, s.Server(tlsconfig.Policy{})); serverErr == nil ||
		tlsconfig.ReasonOf(serverErr) != tlsconfig.ReasonRefused {
		t.Errorf("a client with another authority: %v", serverErr)
	}
}

// Suites in CBC mode are used if both sides are configured with them, and not by default.
func TestCBCSuitesAreOffByDefault(t *testing.T) {
	p := newPKI(t)
	s := p.open(p.files(p.issue(p.ca, nodeRequest())))
	cbc := tlsconfig.Policy{AnyName: true, MaxVersion: tls.VersionTLS12,
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}}
	for name, c := range map[string]struct {
		client, server tlsconfig.Policy
		works          bool
	}{"both": {cbc, cbc, true}, "client": {cbc, tlsconfig.Policy{}, false},
		"server": {tlsconfig.Policy{AnyName: true}, cbc, false}} {
		_, clientErr, serverErr := handshake(t, s.Client(c.client), s.Server(c.server))
		if works := clientErr == nil && serverErr == nil; works != c.works {
			t.Errorf("configured on %s: %v, %v", name, clientErr, serverErr)
		}
	}
	for name := range tlsconfig.SecureCipherSuites() {
		used := slices.Contains(tlsconfig.DefaultCipherSuites(), tlsconfig.SecureCipherSuites()[name])
		if used == strings.Contains(name, "_CBC_") {
			t.Errorf("%s by default: %t", name, used)
		}
	}
}

func TestReloadTakesEffectForNewConnections(t *testing.T) {
	p := newPKI(t)
	first := p.issue(p.ca, nodeRequest())
	s := p.open(p.files(first))
	server := s.Server(tlsconfig.Policy{})
	client := s.Client(tlsconfig.Policy{ServerName: "n1.example"})
	serial := func() *big.Int {
		t.Helper()
		var got *big.Int
		c := client.Clone()
		verify := c.VerifyConnection
		c.VerifyConnection = func(state tls.ConnectionState) error {
			got = state.PeerCertificates[0].SerialNumber
			return verify(state)
		}
		if _, clientErr, serverErr := handshake(t, c, server); clientErr != nil || serverErr != nil {
			t.Fatal(clientErr, serverErr)
		}
		return got
	}
	if serial().Cmp(first.Certificate.SerialNumber) != 0 {
		t.Error("another certificate before the reload")
	}
	p.write("node.pem", []byte("-----BEGIN NOTHING-----\n"))
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "has no CERTIFICATE block") {
		t.Errorf("reload of a broken file: %v", err)
	}
	if serial().Cmp(first.Certificate.SerialNumber) != 0 {
		t.Error("a broken file replaced the certificate")
	}
	// The authority changes as well, on both sides.
	p.ca = p.authority("test CA 2")
	second := p.issue(p.ca, nodeRequest())
	f := p.files(second)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if serial().Cmp(second.Certificate.SerialNumber) != 0 {
		t.Error("the reload has no effect")
	}
	if got := s.Stats(); got.Reloads != 1 || got.Failures != 1 || !s.Expiry().Equal(second.Certificate.NotAfter) {
		t.Errorf("%+v", got)
	}
	if err := os.Chmod(f.PrivateKey, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(),
		"has mode 0644, so other users may read or change it; run chmod 600") {
		t.Errorf("a key that others may read: %v", err)
	}
	if log := p.log.String(); strings.Count(log, "the previous ones stay in use") != 2 ||
		!strings.Contains(log, "certificate files reloaded") {
		t.Error(log)
	}
}

// TestKeyAndCertificateAreReplacedOneAfterTheOther checks that the watcher does not report the moment between the
// renames of a key and its certificate, and reports a pair that remains inconsistent once.
func TestKeyAndCertificateAreReplacedOneAfterTheOther(t *testing.T) {
	p := newPKI(t)
	s := p.open(p.files(p.issue(p.ca, nodeRequest())))
	second := p.issue(p.ca, nodeRequest())
	key, err := second.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	p.write("node.key", key)
	tlsconfig.Check(s)
	if got := s.Stats(); got.Failures != 0 || strings.Contains(p.log.String(), "ERROR") {
		t.Errorf("%+v\n%s", got, p.log)
	}
	p.write("node.pem", second.CertificatePEM())
	tlsconfig.Check(s)
	if got := s.Stats(); got.Reloads != 1 || got.Failures != 0 {
		t.Errorf("%+v\n%s", got, p.log)
	}
	p.write("node.pem", p.issue(p.ca, nodeRequest()).CertificatePEM())
	for range 3 {
		tlsconfig.Check(s)
	}
	if got := s.Stats(); got.Reloads != 1 || got.Failures != 1 ||
		strings.Count(p.log.String(), "the previous ones stay in use") != 1 {
		t.Errorf("%+v\n%s", got, p.log)
	}
}

func TestRevokedCertificatesAreRefused(t *testing.T) {
	p := newPKI(t)
	f := p.files(p.issue(p.ca, nodeRequest()))
	good, bad := p.issue(p.ca, authority.Client("c", "good")), p.issue(p.ca, authority.Client("c", "bad"))
	list, err := p.ca.Revoke(time.Hour, bad.Certificate.SerialNumber)
	if err != nil {
		t.Fatal(err)
	}
	f.RevocationLists = []string{p.write("ca.crl", list)}
	s := p.open(f)
	server := s.Server(tlsconfig.Policy{ClientAuth: tlsconfig.ClientAuthOptional})
	connect := func(pair *authority.Pair) error {
		_, _, serverErr := handshake(t, &tls.Config{RootCAs: p.ca.Pool(), ServerName: "n1.example", Time: p.clock.Now,
			Certificates: []tls.Certificate{pair.TLS()}}, server)
		return serverErr
	}
	if err := connect(good); err != nil {
		t.Error(err)
	}
	if err := connect(bad); err == nil || tlsconfig.ReasonOf(err) != tlsconfig.ReasonRevoked {
		t.Errorf("a revoked certificate: %v", err)
	}
	stranger, err := p.authority("test CA").Revoke(time.Hour, good.Certificate.SerialNumber)
	if err != nil {
		t.Fatal(err)
	}
	p.write("ca.crl", stranger)
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(),
		`"CN=test CA" is signed by none of the trusted certificates`) {
		t.Errorf("a list of another authority: %v", err)
	}
	if s.Stats().RevocationsDue.Sub(p.clock.Now()) != time.Hour {
		t.Error(s.Stats())
	}
	// The next list revokes the other certificate instead.
	if list, err = p.ca.Revoke(2*time.Hour, good.Certificate.SerialNumber); err != nil {
		t.Fatal(err)
	}
	p.write("ca.crl", list)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if err := connect(good); err == nil || tlsconfig.ReasonOf(err) != tlsconfig.ReasonRevoked {
		t.Errorf("a certificate of a reloaded list: %v", err)
	}
	if err := connect(bad); err != nil {
		t.Errorf("a certificate that is on the previous list only: %v", err)
	}
	if s.Stats().RevocationsDue.Sub(p.clock.Now()) != 2*time.Hour {
		t.Error(s.Stats())
	}
}

func TestExpiryIsReportedOnceADay(t *testing.T) {
	p := newPKI(t)
	s := p.open(p.files(p.issue(p.ca, nodeRequest())))
	count := func(after time.Duration) int {
		p.clock.Skip(after)
		tlsconfig.Check(s)
		n := strings.Count(p.log.String(), "the certificate expires soon") +
			strings.Count(p.log.String(), "the certificate has expired")
		p.log.Reset()
		return n
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {59 * 24 * time.Hour, 0}, {25 * time.Hour, 1}, {time.Hour, 0}, {24 * time.Hour, 1},
		{30 * 24 * time.Hour, 1}} {
		if got := count(c.after); got != c.want {
			t.Errorf("after %v: %d warnings, want %d", c.after, got, c.want)
		}
	}
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "expired on 1970-04-12 13:46:40 UTC; renew it") {
		t.Errorf("reload of an expired certificate: %v", err)
	}
}

// A file that contains a private key is private, even if it is configured as a certificate.
func TestKeysInReadableCertificateFilesAreRefused(t *testing.T) {
	p := newPKI(t)
	f := p.files(p.issue(p.ca, nodeRequest()))
	certificate, err := os.ReadFile(f.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(f.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	both := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(both, append(certificate, key...), 0o644); err != nil { //nolint:gosec // the test
		t.Fatal(err)
	}
	f.Certificate = both
	const want = "contains a private key and has mode 0644, so other users may read or change it"
	if _, err := tlsconfig.ClientConfig(f, "n1.example", p.clock.Now()); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}
