package server

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"cqld/server/frame"
)

func TestTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // only for its certificate
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	s, addr := start(t, Options{
		TLS:    &tls.Config{Certificates: web.TLS.Certificates},
		Limits: Limits{HandshakeTimeout: 500 * time.Millisecond},
	})
	for _, v := range versions() {
		c := dial(t, addr, v)
		c.net = tls.Client(c.net, &tls.Config{RootCAs: roots, ServerName: "example.com"})
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
	plain := dial(t, addr, frame.V4)
	plain.write(frame.OpOptions, 1, 0, nil)
	if b, err := io.ReadAll(plain.net); len(b) > 7 && b[0] == 0x84 || isTimeout(err) {
		t.Errorf("plain text is answered by % x, %v", b, err)
	}
}

func versions() []frame.Version { return []frame.Version{frame.V3, frame.V4, frame.V5} }
