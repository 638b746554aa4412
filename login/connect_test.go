package login

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"cqld/internal/testclock"
	"cqld/server"
)

// serve starts a CQL server whose clients log in with an Authenticator.
func serve(tb testing.TB, a *Authenticator) (address string) {
	tb.Helper()
	s := server.New(server.Options{Authenticator: a, Logger: slog.New(slog.DiscardHandler),
		Limits: server.Limits{HandshakeTimeout: time.Hour}}) // however slow the machine is
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	tb.Cleanup(func() {
		s.Close()
		if err := <-served; !errors.Is(err, server.ErrClosed) {
			tb.Error(err)
		}
	})
	return l.Addr().String()
}

// connect connects with protocol v4, sends a token, and returns the opcode and body of the answer.
func connect(address string, token []byte) (opcode byte, body []byte, err error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return 0, nil, err
	}
	defer c.Close()
	startup := []byte("\x04\x00\x00\x00\x01\x00\x00\x00\x16\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0")
	if _, _, err := exchangeFrames(c, startup); err != nil {
		return 0, nil, err
	}
	response := binary.BigEndian.AppendUint32([]byte{4, 0, 0, 1, 0x0f}, uint32(4+len(token)))
	response = append(binary.BigEndian.AppendUint32(response, uint32(len(token))), token...)
	return exchangeFrames(c, response)
}

func exchangeFrames(c net.Conn, request []byte) (opcode byte, body []byte, err error) {
	if _, err := c.Write(request); err != nil {
		return 0, nil, err
	}
	var head [9]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, binary.BigEndian.Uint32(head[5:]))
	_, err = io.ReadFull(c, body)
	return head[4], body, err
}

const (
	opError       = 0x00
	opAuthSuccess = 0x10
)

// In a storm of connections, each password is verified once, even wrong ones.
func TestConnectionStorm(t *testing.T) {
	h := hash(t, "right", bcrypt.MinCost)
	a, err := New(Options{Lookup: func(role string) (Role, bool) { return Role{Hash: h, Login: true}, role == "ada" },
		Clock:  &testclock.Clock{},
		Random: bytes.NewReader(make([]byte, 64)), Logger: slog.New(slog.DiscardHandler),
		Limits: Limits{HashersMax: 1, Cost: bcrypt.MinCost}})
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, a)
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			for range 10 {
				for _, c := range []struct {
					token []byte
					want  string
				}{
					{token("ada", "right"), fmt.Sprint(byte(opAuthSuccess), " ff ff ff ff")},
					{token("ada", "wrong"), fmt.Sprintf("%d % x", opError, refusal("ada"))},
					{token("unknown", "right"), fmt.Sprintf("%d % x", opError, refusal("unknown"))},
				} {
					op, body, err := connect(address, c.token)
					if got := fmt.Sprintf("%d % x", op, body); err != nil || got != c.want {
						t.Errorf("client %d: %v, got %s, want %s", i, err, got, c.want)
					}
				}
			}
		})
	}
	wg.Wait()
	if s := a.Stats(); s.Verified != 3 || s.Successes != 300 || s.Failures != 600 {
		t.Errorf("%+v", s)
	}
}

// refusal returns the body of ERROR for wrong credentials.
func refusal(role string) []byte {
	text := "Provided username " + role + " and/or password are incorrect"
	return append(binary.BigEndian.AppendUint16([]byte{0, 0, 1, 0}, uint16(len(text))), text...)
}

// BenchmarkConnect measures whole logins: a TCP connection, STARTUP and AUTH_RESPONSE with remembered credentials.
// Client and server share the CPU.
func BenchmarkConnect(b *testing.B) {
	h := hash(b, "right", 10)
	a, err := New(Options{Lookup: func(string) (Role, bool) { return Role{Hash: h, Login: true}, true },
		Clock:  &testclock.Clock{},
		Random: bytes.NewReader(make([]byte, 64)), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	address := serve(b, a)
	for b.Loop() {
		if op, body, err := connect(address, token("ada", "right")); err != nil || op != opAuthSuccess {
			b.Fatal(op, body, err)
		}
	}
}
