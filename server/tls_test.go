package server

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cqld/server/frame"
	"cqld/tlsconfig"
	"cqld/tlsconfig/authority"
)

// certificates returns a certificate authority, and the configuration of a server at 127.0.0.1 with a certificate of
// it.
func certificates(t *testing.T) (*authority.Authority, *tls.Config) {
	t.Helper()
	ca, err := authority.New(authority.Environment{}, "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(authority.Node("test", "n1", nil, []netip.Addr{netip.MustParseAddr("127.0.0.1")}))
	if err != nil {
		t.Fatal(err)
	}
	return ca, &tls.Config{Certificates: []tls.Certificate{pair.TLS()}}
}

func TestTLS(t *testing.T) {
	ca, config := certificates(t)
	s, addr := start(t, Options{TLS: config, Limits: Limits{HandshakeTimeout: time.Hour}})
	for _, v := range versions() {
		c := dial(t, addr, v)
		c.net = tls.Client(c.net, &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1"})
		if h, _ := c.startup(lz4Option); h.Opcode != frame.OpReady {
			t.Fatalf("v%d: STARTUP: %v", v, h.Opcode)
		}
		c.works()
		if clients := s.Clients(); !clients[0].TLS {
			t.Error("the connection does not count as encrypted")
		}
		c.write(0x44, 1, 0, nil) // errors arrive through TLS, too
		c.readError()
		c.net.Close()
	}
	for _, v := range versions() {
		plain := dial(t, addr, v)
		plain.write(frame.OpOptions, 1, 0, nil)
		if h, e := plain.readError(); h.Version != v || h.Stream != 1 ||
			!strings.HasPrefix(e.Message, "This port requires TLS") {
			t.Errorf("v%d without encryption: %+v %v", v, h, e)
		}
		if b, err := io.ReadAll(plain.net); len(b) > 0 || err != nil {
			t.Errorf("after the error: % x, %v", b, err)
		}
	}
	other := dial(t, addr, frame.V4)
	if _, err := io.WriteString(other.net, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(other.net); len(b) > 0 || isTimeout(err) {
		t.Errorf("plain text is answered by % x, %v", b, err)
	}
	eventually(t, "handshakes are counted", func() bool {
		e := s.Encryption()
		return e.Completed == 3 && e.Failures[tlsconfig.ReasonPlaintext] == 4
	})
	s, addr = start(t, Options{TLS: config, Limits: Limits{HandshakeTimeout: 100 * time.Millisecond}})
	silent := dial(t, addr, frame.V4)
	if b, err := io.ReadAll(silent.net); len(b) > 0 || isTimeout(err) {
		t.Errorf("a silent client gets % x, %v", b, err)
	}
	eventually(t, "the time-out is counted", func() bool {
		return s.Encryption().Failures[tlsconfig.ReasonTimeout] == 1
	})
}

func TestOptionalTLS(t *testing.T) {
	ca, config := certificates(t)
	s, addr := start(t, Options{TLS: config, TLSOptional: true})
	for _, secure := range []bool{true, false} {
		for _, v := range versions() {
			c := dial(t, addr, v)
			if secure {
				c.net = tls.Client(c.net, &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1"})
			}
			if h, _ := c.startup(lz4Option); h.Opcode != frame.OpReady {
				t.Fatalf("v%d: STARTUP: %v", v, h.Opcode)
			}
			c.works()
			if clients := s.Clients(); clients[0].TLS != secure {
				t.Errorf("encrypted: %t, want %t", clients[0].TLS, secure)
			}
			c.net.Close()
			eventually(t, "the connection ends", func() bool { return len(s.Clients()) == 0 })
		}
	}
	if e := s.Encryption(); e.Completed != 3 || e.Failures[tlsconfig.ReasonPlaintext] > 0 {
		t.Errorf("%+v", e)
	}
}

// TestHandshakesOfTLSAreBounded opens connections that begin with a part of a TLS handshake. The oldest end for newer
// ones, and clients that continue are served.
func TestHandshakesOfTLSAreBounded(t *testing.T) {
	ca, config := certificates(t)
	s, addr := start(t, Options{TLS: config, Limits: Limits{HandshakesMax: 10, HandshakeTimeout: time.Minute}})
	var slow []net.Conn
	for range 30 {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := nc.Write([]byte{0x16, 3, 1}); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, nc)
	}
	c := dial(t, addr, frame.V5)
	c.net = tls.Client(c.net, &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1"})
	if h, _ := c.startup(lz4Option); h.Opcode != frame.OpReady {
		t.Fatalf("STARTUP: %v", h.Opcode)
	}
	c.works()
	slow[0].SetReadDeadline(time.Now().Add(patience))
	if _, err := slow[0].Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the oldest connection: %v", err)
	}
	eventually(t, "only the newest connections remain", func() bool { return len(s.Clients()) <= 11 })
}

func versions() []frame.Version { return []frame.Version{frame.V3, frame.V4, frame.V5} }
