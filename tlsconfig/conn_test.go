package tlsconfig_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"cqld/tlsconfig"
)

// accepted returns both ends of a connection over TCP.
func accepted(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestTheFirstByteChoosesEncryption(t *testing.T) {
	p := newPKI(t)
	s := p.open(p.files(p.issue(p.ca, nodeRequest())))
	for _, c := range []struct{ optional, encrypts, works bool }{{true, true, true}, {true, false, true},
		{false, true, true}, {false, false, false}} {
		socket, accepted := accepted(t)
		server := tlsconfig.NewConn(accepted, s.Server(tlsconfig.Policy{}), c.optional)
		client := socket
		if c.encrypts {
			client = tls.Client(socket, s.Client(tlsconfig.Policy{AnyName: true}))
		}
		echoed := make(chan error, 1)
		go func() {
			b := make([]byte, 5)
			_, err := io.ReadFull(server, b)
			if err == nil {
				_, err = server.Write(b)
			}
			server.CloseWrite()
			if err != nil {
				server.Close()
			}
			echoed <- err
		}()
		_, _ = client.Write([]byte("hello")) // a failure shows below
		got, _ := io.ReadAll(client)
		err := <-echoed
		if c.works && (err != nil || !bytes.Equal(got, []byte("hello")) || server.Encrypted() != c.encrypts) {
			t.Errorf("%+v: %q, %v, encrypted: %t", c, got, err, server.Encrypted())
		}
		if !c.works && (tlsconfig.ReasonOf(err) != tlsconfig.ReasonPlaintext || len(got) > 0) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

func TestPartialRecordsAreSeen(t *testing.T) {
	p := newPKI(t)
	s := p.open(p.files(p.issue(p.ca, nodeRequest())))
	socket, accepted := accepted(t)
	server := tlsconfig.NewConn(accepted, s.Server(tlsconfig.Policy{}), false)
	held := &holding{Conn: socket}
	client := tls.Client(held, s.Client(tlsconfig.Policy{AnyName: true}))
	done := make(chan error, 1)
	go func() { done <- server.Handshake(t.Context()) }()
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	read := func() (int, error) {
		server.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		return server.Read(make([]byte, 100))
	}
	if n, err := read(); n != 0 || err == nil || server.Partial() {
		t.Errorf("an idle connection: %d, %v, partial: %t", n, err, server.Partial())
	}
	held.hold = true
	if _, err := client.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	for _, part := range []int{3, 5} {
		if _, err := socket.Write(held.buf[:part]); err != nil {
			t.Fatal(err)
		}
		held.buf = held.buf[part:]
		if n, err := read(); n != 0 || err == nil || !server.Partial() {
			t.Errorf("a part of a record: %d, %v, partial: %t", n, err, server.Partial())
		}
	}
	if _, err := socket.Write(held.buf); err != nil {
		t.Fatal(err)
	}
	if n, err := read(); n != 7 || err != nil || server.Partial() {
		t.Errorf("the whole record: %d, %v, partial: %t", n, err, server.Partial())
	}
}

// holding keeps written data while hold is true.
type holding struct {
	net.Conn
	hold bool
	buf  []byte
}

func (h *holding) Write(b []byte) (int, error) {
	if h.hold {
		h.buf = append(h.buf, b...)
		return len(b), nil
	}
	return h.Conn.Write(b)
}
