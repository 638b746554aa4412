package server

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

func TestUnreadReportsUnreadBytes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if unread(in) {
		t.Error("bytes were received before any were sent")
	}
	cork(out)
	out.Write([]byte("x"))
	in.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a corked byte is read: %v", err)
	}
	uncork(out)
	eventually(t, "the byte is there", func() bool { return unread(in) })
}
