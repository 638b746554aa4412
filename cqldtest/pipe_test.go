package cqldtest

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/nettest"
)

// TestMemoryConnectionsBehaveAsTCP checks the connections of InMemoryNetwork with nettest: deadlines, concurrent use,
// large transfers and closing.
func TestMemoryConnectionsBehaveAsTCP(t *testing.T) {
	nettest.TestConn(t, func() (client, server net.Conn, stop func(), err error) {
		m := &memory{}
		at := netip.MustParseAddrPort("127.255.0.1:9042")
		l, err := m.listen(at)
		if err != nil {
			return nil, nil, nil, err
		}
		if client, err = m.dial(context.Background(), netip.Addr{}, at); err != nil {
			return nil, nil, nil, err
		}
		server, err = l.Accept()
		return client, server, func() { client.Close(); server.Close(); l.Close() }, err
	})
}

func TestMemoryAddressesAreOfOneListener(t *testing.T) {
	m := &memory{}
	at := netip.MustParseAddrPort("127.255.0.1:9042")
	if _, err := m.dial(t.Context(), netip.Addr{}, at); err == nil {
		t.Fatal("a connection to an address without a listener succeeds")
	}
	l, err := m.listen(at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.listen(at); err == nil {
		t.Fatal("two listeners have one address")
	}
	waiting, err := m.dial(t.Context(), netip.Addr{}, at)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := waiting.Read(make([]byte, 1)); err == nil {
		t.Fatal("a connection that was not accepted outlives its listener")
	}
	if _, err := l.Accept(); err == nil {
		t.Fatal("a closed listener accepts")
	}
	if l, err = m.listen(at); err != nil {
		t.Fatal("the address is not free again:", err)
	}
	l.Close()
}
