package server

import (
	"errors"
	"log/slog"
	"net"
	"testing"
)

// A listener that is given to a server which was closed before does not stay open: its address would be in use until
// the process ends.
func TestServeAfterCloseClosesTheListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Logger: slog.New(slog.DiscardHandler)})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if again, err := net.Listen("tcp", l.Addr().String()); err != nil {
		t.Fatal("the listener is open:", err)
	} else {
		again.Close()
	}
}
