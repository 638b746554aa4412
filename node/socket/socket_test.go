package socket

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pair returns the two ends of a connection. The first is one of this package.
func pair(t testing.TB) (net.Conn, *net.TCPConn) {
	t.Helper()
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); client.Close() })
	return c, client.(*net.TCPConn)
}

func TestConcurrentReadAndWrite(t *testing.T) {
	c, client := pair(t)
	const total = 8 << 20
	send := func(w io.Writer, seed byte, sum *[32]byte) error {
		r := rand.NewChaCha8([32]byte{seed})
		h := sha256.New()
		sizes := rand.New(rand.NewPCG(uint64(seed), 1))
		buf := make([]byte, 3*transferMax)
		for sent := 0; sent < total; {
			b := buf[:min(1+sizes.IntN(len(buf)), total-sent)]
			r.Read(b)
			h.Write(b)
			n, err := w.Write(b)
			if err != nil || n != len(b) {
				return errors.Join(err, io.ErrShortWrite)
			}
			sent += n
		}
		h.Sum(sum[:0])
		return nil
	}
	receive := func(r io.Reader, sum *[32]byte) error {
		h := sha256.New()
		buf := make([]byte, 2*transferMax)
		for got := 0; got < total; {
			n, err := r.Read(buf[:min(1+rand.IntN(len(buf)), total-got)])
			if err != nil {
				return err
			}
			h.Write(buf[:n])
			got += n
		}
		h.Sum(sum[:0])
		return nil
	}
	var sums [4][32]byte
	var errs [4]error
	var wg sync.WaitGroup
	wg.Go(func() { errs[0] = send(c, 1, &sums[0]) })
	wg.Go(func() { errs[1] = receive(client, &sums[1]) })
	wg.Go(func() { errs[2] = send(client, 2, &sums[2]) })
	wg.Go(func() { errs[3] = receive(c, &sums[3]) })
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil || sums[0] != sums[1] || sums[2] != sums[3] {
		t.Fatal("the received bytes differ from those sent", err)
	}
}

func TestTheEndIsEOF(t *testing.T) {
	c, client := pair(t)
	if _, err := client.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	client.CloseWrite()
	got, err := io.ReadAll(struct{ io.Reader }{c})
	if err != nil || string(got) != "last" {
		t.Fatalf("%q, %v", got, err)
	}
	if n, err := c.Read(nil); n != 0 || err != nil {
		t.Fatal("of an empty read:", n, err)
	}
}

func TestErrorsAreThoseOfNet(t *testing.T) {
	c, client := pair(t)
	b := make([]byte, 10)
	check := func(what, op string, err, is error) {
		t.Helper()
		var o *net.OpError
		if !errors.As(err, &o) || o.Op != op || !errors.Is(err, is) {
			t.Errorf("%s: %v", what, err)
		}
	}
	c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, err := c.Read(b)
	check("late", "read", err, os.ErrDeadlineExceeded)
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Error("is no timeout:", err)
	}
	c.SetReadDeadline(time.Time{})
	c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	for err = nil; err == nil; { // until the buffers are full
		_, err = c.Write(bytes.Repeat([]byte("x"), transferMax))
	}
	check("full", "write", err, os.ErrDeadlineExceeded)
	client.SetLinger(0)
	client.Close()
	_, err = c.Read(b)
	check("reset", "read", err, syscall.ECONNRESET)
	c.SetWriteDeadline(time.Time{})
	_, err = c.Write(b)
	check("gone", "write", err, syscall.EPIPE)
	c.Close()
	_, err = c.Read(b)
	check("closed", "read", err, net.ErrClosed)
}

func TestCloseEndsARead(t *testing.T) {
	c, _ := pair(t)
	done := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 10))
		done <- err
	}()
	time.Sleep(10 * time.Millisecond)
	c.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	c, client := pair(t)
	out, in := make([]byte, 100), make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := client.Write(out); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(in); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(in); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Read(out); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Fatalf("%v allocations", n)
	}
}
