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
	for held := false; !held; {
		cork(out)
		began := time.Now()
		out.Write([]byte("x"))
		in.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := in.Read(make([]byte, 1))
		// The kernel sends what was corked for 200 ms. If the process stood still for so long, the test is repeated.
		if held = errors.Is(err, os.ErrDeadlineExceeded); !held && time.Since(began) < 150*time.Millisecond {
			t.Fatalf("a corked byte is read: %v", err)
		}
		if !held {
			uncork(out)
		}
	}
	uncork(out)
	eventually(t, "the byte is there", func() bool { return unread(in) })
}
