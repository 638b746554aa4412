package server

import (
	"sync/atomic"
	"testing"
	"time"

	"cqld/internal/memory"
	"cqld/query"
	"cqld/request"
	"cqld/server/account"
	"cqld/server/frame"
)

// TestClientThatWaitsForAnswersIsNotPaused has a client send one request at a time while others have more memory than
// readers wait for. Each request is answered after the reader has begun to wait, and the next one is answered, too.
func TestClientThatWaitsForAnswersIsNotPaused(t *testing.T) {
	const memory, others = 1 << 20, 850 << 10
	for _, shared := range []int64{0, 64 << 10} {
		for _, v := range []frame.Version{4, 5} {
			var s *Server
			processor := &fake{query: func(*request.Request, *query.Session, string, *query.Params) (*query.Result,
				error) {
				for late := time.Now().Add(10 * time.Second); !anyPaused(s) && time.Now().Before(late); {
					time.Sleep(time.Millisecond)
				}
				return void()
			}}
			s, addr := start(t, Options{Processor: processor,
				Limits: Limits{InFlightBytesMax: memory, ConnectionBytesMax: 64 << 10, AddressBytesMax: shared}})
			c := connect(t, addr, v)
			free := hold(t, s, others, shared/100*90)
			for range 20 {
				c.works()
			}
			free()
		}
	}
}

// hold holds memory of all clients, or if ofAddress is not zero, of the address of a connection, until free is called.
func hold(t *testing.T, s *Server, ofAll, ofAddress int64) (free func()) {
	t.Helper()
	if ofAddress > 0 {
		address := s.connections()[0].client.Addr()
		s.mu.Lock()
		shared := s.mu.addresses[address].budget
		s.mu.Unlock()
		other := new(account.Account) // of another connection
		limits := memory.Limits{Bytes: 2 * ofAddress, Reserve: ofAddress}
		other.Init(memory.New(memory.Options{Limits: limits}), ofAddress)
		other.Join(nil, shared, new(atomic.Int64))
		held := other.Charge(ofAddress)
		return func() { other.Release(held) }
	}
	held, ok := s.memory.Reserve(ofAll)
	if !ok {
		t.Fatal("no memory for the others")
	}
	return func() { s.memory.Return(held) }
}

// anyPaused reports whether the reader of any connection waits for memory of others.
func anyPaused(s *Server) bool {
	for _, c := range s.connections() {
		if c.account.Waiting() {
			return true
		}
	}
	return false
}
