package azuretables

import (
	"crypto/tls"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cqld/tlsconfig"
	"cqld/tlsconfig/authority"
)

// TestPlaintextAtTLSPort sends HTTP to a port that requires TLS.
func TestPlaintextAtTLSPort(t *testing.T) {
	ca, err := authority.New(authority.Environment{}, "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(authority.Node("test", "n1", nil, []netip.Addr{netip.MustParseAddr("127.0.0.1")}))
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(o *Options) {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS()}, MinVersion: tls.VersionTLS12}
	})
	for _, padding := range []int{0, 40 << 10} {
		begun := time.Now()
		resp, body := b.raw([]byte("GET /races HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x",
			padding)+"\r\n\r\n"), "GET")
		if resp.StatusCode != 400 || !resp.Close || !strings.HasPrefix(body, "This port requires TLS") {
			t.Errorf("after %v: %d %q", time.Since(begun), resp.StatusCode, body)
		}
	}
	if n := b.server.Encryption().Failures[tlsconfig.ReasonPlaintext]; n != 2 {
		t.Errorf("%d connections count as not encrypted", n)
	}
}
