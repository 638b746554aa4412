package azuretables

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/azuretables/entity"
	"cqld/internal/await"
	"cqld/request"
)

// patient is a Service whose queries end only when their contexts end.
type patient struct {
	*inMemory
	entered chan struct{}
	ended   chan error
}

func (p patient) Query(r *request.Request, _, _ string, _ *entity.Query) (*entity.Page, error) {
	p.entered <- struct{}{}
	<-r.Context.Done()
	p.ended <- r.Context.Err()
	return nil, r.Context.Err()
}

func newPatient(t *testing.T) (patient, *bench) {
	p := patient{newMemory(), make(chan struct{}, 1), make(chan error, 1)}
	b := newBench(t, func(o *Options) { o.Service = p })
	b.memory = p.inMemory
	b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\n\n{\"TableName\":\"races\"}")
	return p, b
}

// runQuery sends a query on a new connection and does not wait for the response.
func (p patient) runQuery(t *testing.T, b *bench) net.Conn {
	c, err := net.Dial("tcp", b.address)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "GET /devstoreaccount1/races() HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-date: %s\r\nAuthorization: "+
		"%s\r\n\r\n",
		b.date(), b.sign(DevelopmentAccount, "GET", "/devstoreaccount1/races()", ""))
	select {
	case <-p.entered:
	case <-time.After(patience):
		line, _ := bufio.NewReader(c).ReadString('\n')
		t.Fatalf("the query does not begin: %s", line)
	}
	return c
}

func (p patient) mustEnd(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the query continues")
	}
}

func TestDisconnectCancelsRequest(t *testing.T) {
	p, b := newPatient(t)
	other := p.runQuery(t, b)
	defer other.Close()
	p.runQuery(t, b).Close()
	p.mustEnd(t)
	select {
	case <-p.ended:
		t.Error("another client's request ended as well")
	case <-time.After(4 * watchEvery):
	}
	other.Close()
	p.mustEnd(t)
}

func TestDrainCancelsLateRequests(t *testing.T) {
	p, b := newPatient(t)
	defer p.runQuery(t, b).Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := b.server.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drain: %v", err)
	}
	p.mustEnd(t)
	if n := b.server.carrier.active.Load(); n != 0 {
		t.Errorf("%d requests run after the drain", n)
	}
}

// TestDrainLosesNoRequest checks that a drain loses no request of clients that keep their connections and do not
// retry: each connection ends with a response that announces it.
func TestDrainLosesNoRequest(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Limits.DrainTimeout = patience })
	request := fmt.Sprintf("GET /devstoreaccount1/Tables HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-date: "+
		"%s\r\nAuthorization: %s\r\n\r\n",
		b.date(), b.sign(DevelopmentAccount, "GET", "/devstoreaccount1/Tables", ""))
	var clients sync.WaitGroup
	var answered, ended atomic.Int64
	for range 16 {
		c, err := net.Dial("tcp", b.address)
		if err != nil {
			t.Fatal(err)
		}
		clients.Go(func() {
			defer c.Close()
			for in := bufio.NewReader(c); ; time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond) {
				fmt.Fprint(c, request)
				resp, err := http.ReadResponse(in, nil)
				if err != nil || resp.StatusCode != 200 {
					t.Errorf("a request failed: %v", err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				answered.Add(1)
				if resp.Close {
					ended.Add(1)
					return
				}
			}
		})
	}
	await.Until(t, "200 responses", func() bool { return answered.Load() >= 200 })
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if err := b.server.Drain(ctx); err != nil {
		t.Errorf("drain: %v", err)
	}
	clients.Wait()
	if n := ended.Load(); n != 16 {
		t.Errorf("%d connections were notified of the drain", n)
	}
}

// TestDrainAnswersFirstRequestOfNewConnection checks that a client that connects just before a drain gets the
// response to its first request.
func TestDrainAnswersFirstRequestOfNewConnection(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Limits.DrainTimeout, o.Limits.NewcomerWait = patience, patience })
	c, err := net.Dial("tcp", b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	await.Until(t, "the connection is accepted", func() bool { return b.server.carrier.newcomers.waiting() > 0 })
	drained := make(chan error, 1)
	go func() { drained <- b.server.Drain(context.Background()) }()
	time.Sleep(newcomerWait / 5) // a drain that does not wait would close the connection
	fmt.Fprintf(c, "GET /devstoreaccount1/Tables HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-date: %s\r\nAuthorization: "+
		"%s\r\n\r\n",
		b.date(), b.sign(DevelopmentAccount, "GET", "/devstoreaccount1/Tables", ""))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 200 || !resp.Close {
		t.Errorf("the first request of a connection: %v", err)
	}
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
}
