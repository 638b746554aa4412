// Package identifier generates UUIDs, and the paths of list elements, which are time-based UUIDs.
//
// Time and randomness are injected.
package identifier

import (
	"sync"
	"sync/atomic"

	"cqld/internal/env"
	"cqld/types"
)

// Source generates UUIDs. Time-based ones ascend within a node, and their node part is random. Its methods are safe for
// concurrent use.
type Source struct {
	last         atomic.Uint64 // last used tick of 100 ns
	clockAndNode uint64
	mu           struct {
		sync.Mutex
		rand env.Rand
	}
}

// New generates the node part of the UUIDs: variant 2, and the multicast bit, which marks a node ID that is not a
// network card's. The Source serializes its use of rand.
func New(rand env.Rand) *Source {
	s := new(Source)
	s.mu.rand = rand
	s.clockAndNode = rand.Uint64()&^(3<<62) | 2<<62 | 1<<40
	return s
}

// ticks returns a time that no other call returns, not before millis.
func (s *Source) ticks(millis int64) uint64 {
	now := types.UUIDTicks(millis, 0)
	for {
		last := s.last.Load()
		next := max(now, last+1)
		if s.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// TimeUUID returns a new UUID of version 1; millis is the time now.
func (s *Source) TimeUUID(millis int64) (id [16]byte) {
	types.AppendTimeuuid(id[:0], s.ticks(millis), s.clockAndNode)
	return id
}

// RandomUUID returns a new UUID of version 4.
func (s *Source) RandomUUID() (id [16]byte) {
	s.mu.Lock()
	hi, lo := s.mu.rand.Uint64(), s.mu.rand.Uint64()
	s.mu.Unlock()
	for i := range 8 {
		id[i], id[8+i] = byte(hi>>(8*i)), byte(lo>>(8*i))
	}
	id[6] = id[6]&0x0F | 0x40
	id[8] = id[8]&0x3F | 0x80
	return id
}
