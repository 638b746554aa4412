package query

import (
	"sync"
	"sync/atomic"

	"cqld/cql/types"
	"cqld/internal/env"
)

// environment is what functions of one statement see of the outside.
type environment struct {
	p      *Processor
	millis int64
}

// NowMillis is the time at which the statement began.
func (e *environment) NowMillis() int64 { return e.millis }

// TimeUUID is a new time-based UUID.
func (e *environment) TimeUUID() [16]byte { return e.p.ids.timeUUID(e.millis) }

// RandomUUID is a new random UUID.
func (e *environment) RandomUUID() [16]byte { return e.p.ids.randomUUID() }

// identifiers makes UUIDs. Those based on time ascend within a node, and its node part is random.
type identifiers struct {
	last         atomic.Uint64 // ticks of 100 ns, given out
	clockAndNode uint64
	mu           struct {
		sync.Mutex
		rand env.Rand
	}
}

// newIdentifiers draws the node part of the UUIDs to come: variant 2, and the multicast bit that
// marks a node which is no network card.
func newIdentifiers(rand env.Rand) *identifiers {
	ids := new(identifiers)
	ids.mu.rand = rand
	ids.clockAndNode = rand.Uint64()&^(3<<62) | 2<<62 | 1<<40
	return ids
}

// ticks is a time no other call gets: at least now.
func (ids *identifiers) ticks(millis int64) uint64 {
	now := types.UUIDTicks(millis, 0)
	for {
		last := ids.last.Load()
		next := max(now, last+1)
		if ids.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

func (ids *identifiers) timeUUID(millis int64) (id [16]byte) {
	types.AppendTimeuuid(id[:0], ids.ticks(millis), ids.clockAndNode)
	return id
}

func (ids *identifiers) randomUUID() (id [16]byte) {
	ids.mu.Lock()
	hi, lo := ids.mu.rand.Uint64(), ids.mu.rand.Uint64()
	ids.mu.Unlock()
	for i := range 8 {
		id[i], id[8+i] = byte(hi>>(8*i)), byte(lo>>(8*i))
	}
	id[6] = id[6]&0x0F | 0x40
	id[8] = id[8]&0x3F | 0x80
	return id
}

// listPath is the path of an element appended to a list: behind every one before it.
func (p *Processor) listPath(millis int64) []byte { return p.timePath(p.ids.ticks(millis)) }

// listFrontMillis is the time around which the paths of prepended elements are mirrored: the later
// one is prepended, the earlier its path. It lies before every list.
const listFrontMillis = 1262304000000 // 2010-01-01

// listFrontPath is the path of an element prepended to a list: before every one there is.
func (p *Processor) listFrontPath(millis int64) []byte {
	return p.timePath(2*types.UUIDTicks(listFrontMillis, 0) - p.ids.ticks(millis))
}

func (p *Processor) timePath(ticks uint64) []byte {
	var id [16]byte
	types.AppendTimeuuid(id[:0], ticks, p.ids.clockAndNode)
	return types.Native(types.Timeuuid).AppendOrdered(nil, id[:], false)
}

// nowSeconds decides what has expired: the clock's time, or what the request says it is.
func (p *Processor) nowSeconds(params *Params) int64 {
	if params.HasNow {
		return params.NowInSeconds
	}
	return p.o.Clock.Now().Unix()
}
