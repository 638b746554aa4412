// Package uuid generates UUIDs, and the paths of list elements, which are time-based UUIDs.
//
// It neither parses nor compares UUIDs: package types does for values of CQL, and schema.UUID is the id of a table.
// Time and randomness are injected.
//
//	env.Rand ──▶ Random (version 4)
//	env.Rand ──▶ Source ─┬▶ TimeUUID, RandomUUID     uuid(), now()
//	                     └▶ Positions                elements of lists
//	node id, timestamp ──▶ OfNode (version 1)        ids of tables
package uuid

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
	defer s.mu.Unlock()
	return Random(s.mu.rand)
}

// Random returns a UUID of version 4 from the next two numbers of rand. The caller serializes the use of rand.
func Random(rand env.Rand) (id [16]byte) {
	hi, lo := rand.Uint64(), rand.Uint64()
	for i := range 8 {
		id[i], id[8+i] = byte(hi>>(8*i)), byte(lo>>(8*i))
	}
	id[6] = id[6]&0x0F | 0x40 // version 4
	id[8] = id[8]&0x3F | 0x80 // variant 2
	return id
}

// OfNode returns the UUID of version 1 whose time is a timestamp (µs since 1970), and whose node part is the lower 47
// bits of a node's id. If no call on that node has the same timestamp, no other call on any node returns the UUID.
func OfNode(timestamp int64, node uint64) (id [16]byte) {
	const (
		variant = 2 << 62
		// multicast marks a node part that is not the address of a network card. It is the lowest bit of the first
		// byte, so that the bits of node from the 41st on are above it.
		multicast = 1 << 40
		low       = multicast - 1
	)
	part := node&low | node&^low<<1&(1<<48-1) | multicast
	types.AppendTimeuuid(id[:0], types.UUIDTicks(0, timestamp*ticksPerMicro), variant|part)
	return id
}
