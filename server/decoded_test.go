package server

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/internal/wire"
	"cqld/query"
	"cqld/request"
	"cqld/server/frame"
)

// TestDecodedRequestsAreReserved sends requests whose decoded form takes many times the size of their bodies, on many
// connections concurrently, and blocks their execution. Memory limits their number; each has reserved its size, and the
// others are executed or refused as overloaded when these have ended.
func TestDecodedRequestsAreReserved(t *testing.T) {
	const (
		clients  = 24
		inFlight = 24 << 20
	)
	nulls := make([]wire.Value, math.MaxUint16)
	for name, body := range map[string]struct {
		op      frame.Opcode
		body    []byte
		decoded int64 // the least that the decoded request takes
	}{
		"values of a query": {frame.OpQuery, (&frame.Query{Query: "q",
			Params: frame.Params{Consistency: 1, Values: nulls}}).
			Append(nil, 4), int64(len(nulls)) * 32},
		"values of a batch": {frame.OpBatch, (&frame.Batch{Statements: []frame.BatchStatement{{Query: "b",
			Values: nulls}},
			Params: frame.Params{Consistency: 1}}).Append(nil, 4), int64(len(nulls)) * 32},
	} {
		t.Run(name, func(t *testing.T) {
			var running, most, reserved atomic.Int64
			opened := make(chan struct{})
			keep := func(r *request.Request) (*query.Result, error) {
				if r.Memory.Bytes() >= body.decoded {
					reserved.Add(1)
				}
				for n := running.Add(1); ; {
					if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				defer running.Add(-1)
				select {
				case <-opened:
				case <-r.Context.Done():
				}
				return void()
			}
			s, addr := start(t, Options{Limits: Limits{InFlightBytesMax: inFlight, ConnectionBytesMax: inFlight},
				Processor: &fake{
					query: func(r *request.Request, _ *query.Session, _ string, _ *query.Params) (*query.Result,
						error) {
						return keep(r)
					},
					batch: func(r *request.Request, _ *query.Session, _ *query.BatchParams) (*query.Result, error) {
						return keep(r)
					},
				}})
			var all sync.WaitGroup
			var answered, refused atomic.Int64
			for range clients {
				c := connect(t, addr, 4)
				all.Go(func() {
					c.write(body.op, 1, 0, body.body)
					if h, _, err := c.tryRead(); err == nil && h.Opcode == frame.OpResult {
						answered.Add(1)
					} else if err == nil {
						refused.Add(1)
					}
				})
			}
			eventually(t, "some wait for memory, or all are executed", func() bool {
				return s.memory.Stats().Waiting > 0 || running.Load() == clients
			})
			time.Sleep(50 * time.Millisecond)
			limits := s.memory.Limits()
			if bound := (limits.Bytes + limits.Reserve) / body.decoded; most.Load() > bound {
				t.Errorf("%d requests of %d bytes are executed with %d bytes of memory", most.Load(), body.decoded,
					limits.Bytes+limits.Reserve)
			}
			close(opened)
			all.Wait()
			if n := answered.Load(); n == 0 || n != reserved.Load() || n+refused.Load() != clients {
				t.Errorf("%d of %d requests were answered, %d refused; %d had reserved their memory", n, clients,
					refused.Load(),
					reserved.Load())
			}
		})
	}
}
