package messaging

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"cqld/internal/cputime"
	"cqld/ring"
)

// BenchmarkRequest measures round trips of a request of 300 bytes and an answer of 60 bytes between two transports of
// one process. cpu-ns/op is the CPU time of both sides together.
func BenchmarkRequest(b *testing.B) {
	for _, inFlight := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("inflight=%d", inFlight), func(b *testing.B) { benchmarkRequest(b, inFlight) })
	}
}

func benchmarkRequest(b *testing.B, inFlight int) {
	x, _ := pair(b, func(n *StreamTransport) {
		n.Handle(Service{Verb: VerbMutation, Handler: func(_ ring.NodeID, p []byte,
			respond Respond) {
			respond(p[:60], nil)
		}})
	})
	payload := make([]byte, 300)
	slots := make(chan struct{}, inFlight)
	var failed atomic.Int64
	began := cputime.Process()
	b.ReportAllocs()
	for b.Loop() {
		slots <- struct{}{}
		x.Request(2, VerbMutation, payload, 10*time.Second, func(_ []byte, err error) {
			if err != nil {
				failed.Add(1)
			}
			<-slots
		})
	}
	for range inFlight {
		slots <- struct{}{}
	}
	b.ReportMetric(float64(cputime.Process()-began)/float64(b.N), "cpu-ns/op")
	if failed.Load() > 0 {
		b.Fatal(failed.Load(), "requests failed")
	}
}

// A request with its reply allocates a closure on the receiver and one in the caller; maps and buffers that grow add
// less than one allocation.
func TestRequestsAllocateLittle(t *testing.T) {
	x, _ := pair(t, func(n *StreamTransport) {
		n.Handle(Service{Verb: VerbMutation, Handler: func(_ ring.NodeID, p []byte,
			respond Respond) {
			respond(p[:60], nil)
		}})
	})
	payload, done := make([]byte, 300), make(chan error, 1)
	allocs := testing.AllocsPerRun(2000, func() {
		x.Request(2, VerbMutation, payload, time.Minute, func(_ []byte, err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
	allowed := 3.0
	if suiteSecurity(t) != nil {
		allowed += 4 // crypto/tls allocates a reader for each read of a record
	}
	if allocs > allowed {
		t.Errorf("%.0f allocations for a request", allocs)
	}
}
