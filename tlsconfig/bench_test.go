package tlsconfig_test

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"cqld/tlsconfig"
	"cqld/tlsconfig/authority"
)

// BenchmarkHandshake measures a connection with its handshake, on loopback, both sides together.
func BenchmarkHandshake(b *testing.B) {
	p := newPKI(b)
	s := p.open(p.files(p.issue(p.ca, nodeRequest())))
	pair := p.issue(p.ca, authority.Client("c", "app")).TLS()
	for _, c := range []struct {
		name   string
		auth   tlsconfig.ClientAuth
		resume bool
	}{{"server certificate", tlsconfig.ClientAuthNone, false}, {"resumed", tlsconfig.ClientAuthNone, true},
		{"client certificate", tlsconfig.ClientAuthRequired, false}} {
		b.Run(c.name, func(b *testing.B) {
			server := s.Server(tlsconfig.Policy{ClientAuth: c.auth})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					nc, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = tls.Server(nc, server).Write([]byte("x")) // the client reports failures
					nc.Close()
				}
			}()
			client := &tls.Config{RootCAs: p.ca.Pool(), ServerName: "n1.example", Time: p.clock.Now,
				Certificates: []tls.Certificate{pair}}
			if c.resume {
				client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			}
			for b.Loop() {
				nc, err := tls.Dial("tcp", l.Addr().String(), client)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(nc, make([]byte, 1)); err != nil {
					b.Fatal(err)
				}
				nc.Close()
			}
		})
	}
}
