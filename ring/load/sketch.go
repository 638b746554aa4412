package load

import (
	"bytes"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"cqld/ring"
	"cqld/schema"
)

// Key is a busy partition key. Charge is per second, and averaged over about Fast. It is a lower bound: the true value
// is at most Error higher, apart from the error of the sample, which is ±35 % for a key with 8 requests in it and ±10 %
// with 100.
type Key struct {
	Table  schema.StorageID
	Token  ring.Token
	Bytes  []byte // the serialized key; nil if it is longer than keyBytesMax. The caller owns it.
	Charge float64
	Error  float64
	// Writes is the part of the requests that are writes, from 0 to 1.
	Writes float64
}

// sketch finds the partition keys that cause the most charge, in bounded memory, with the space-saving sketch (Metwally
// et al. 2005) of a sample of the requests. Keys are identified by table and token. A new key replaces the one with the
// least charge, and inherits its charge as its error. Invariant: the charge that the sample has of a key is in
// [charge-err, charge], or at most the least charge if the key is not kept.
//
// All charges decay, so the sketch shows the last seconds. A sample that finds the sketch in use is dropped: a request
// never waits.
type sketch struct {
	dropped atomic.Int64 // samples

	mu sync.Mutex
	n  int // keys that are kept
	// ids and charges have what a sample examines of all keys, close together in memory.
	ids     [keysMax]uint64
	charges [keysMax]float64
	keys    [keysMax]sampled
	weight  float64 // the part of the full weight of an average that the charges have
}

// sampled is the rest of what the sketch has of a key.
type sampled struct {
	table         schema.StorageID
	token         ring.Token
	err           float64
	reads, writes float64
	length        int // of the key; more than keyBytesMax means that bytes has none of it
	bytes         [keyBytesMax]byte
}

// enters reports whether the request with the given number enters the sample: one in sampleEvery of the requests of a
// range, but not at regular intervals, which would miss the keys of requests that alternate. The multiples of the
// golden ratio are spread evenly.
func enters(n uint64) bool {
	const golden = 0x9E3779B97F4A7C15
	return n*golden < math.MaxUint64/sampleEvery
}

// identify returns the identity of a key. Tokens are hashes of keys, so two keys of a table have the same identity with
// the probability 2⁻⁶⁴.
func identify(table schema.StorageID, token ring.Token) uint64 {
	return uint64(token) ^ uint64(table)*0xD6E8FEB86659FD93
}

// add adds a sampled request.
func (s *sketch) add(table schema.StorageID, token ring.Token, key []byte, charge float64, write bool) {
	if !s.mu.TryLock() {
		s.dropped.Add(1)
		return
	}
	defer s.mu.Unlock()
	id := identify(table, token)
	i := s.find(id)
	if i < 0 {
		i = s.replace(id, charge)
		k := &s.keys[i]
		k.table, k.token, k.reads, k.writes, k.length = table, token, 0, 0, len(key)
		if len(key) <= keyBytesMax {
			copy(k.bytes[:], key)
		}
	} else {
		s.charges[i] += charge
	}
	if write {
		s.keys[i].writes++
	} else {
		s.keys[i].reads++
	}
}

// find returns the index of a key, or -1.
func (s *sketch) find(id uint64) int {
	for i := range s.ids[:s.n] {
		if s.ids[i] == id {
			return i
		}
	}
	return -1
}

// replace makes room for a key and returns its index.
func (s *sketch) replace(id uint64, charge float64) int {
	if s.n < keysMax {
		i := s.n
		s.n++
		s.ids[i], s.charges[i], s.keys[i].err = id, charge, 0
		return i
	}
	least := 0
	for i, c := range s.charges[:] {
		if c < s.charges[least] {
			least = i
		}
	}
	s.keys[least].err = s.charges[least]
	s.ids[least] = id
	s.charges[least] += charge
	return least
}

// negligible is the charge below which a key is removed: a point read, after six times Fast.
const negligible = 1.0 / 400

// decay reduces all charges by the weight that the given time has in an average over Fast.
func (s *sketch) decay(elapsed time.Duration) {
	part := weightOf(elapsed, Fast)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weight += part * (1 - s.weight)
	for i := 0; i < s.n; {
		k := &s.keys[i]
		s.charges[i] *= 1 - part
		k.err, k.reads, k.writes = k.err*(1-part), k.reads*(1-part), k.writes*(1-part)
		if s.charges[i] >= negligible {
			i++
			continue
		}
		// The last key takes its place, and is examined next.
		s.n--
		s.ids[i], s.charges[i], s.keys[i] = s.ids[s.n], s.charges[s.n], s.keys[s.n]
	}
}

// top returns the keys whose charges are known, in no particular order.
func (s *sketch) top() []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.weight == 0 {
		return nil
	}
	// A charge of c a second adds c·Fast to the sum in the long run.
	scale := sampleEvery / (s.weight * Fast.Seconds())
	var out []Key
	for i := range s.n {
		k := &s.keys[i]
		// A key that has just replaced another one may be one of many that are rare.
		if k.reads+k.writes < samplesMin {
			continue
		}
		found := Key{Table: k.table, Token: k.token, Charge: (s.charges[i] - k.err) * scale, Error: k.err * scale,
			Writes: k.writes / (k.reads + k.writes)}
		if k.length <= keyBytesMax {
			found.Bytes = bytes.Clone(k.bytes[:k.length])
		}
		out = append(out, found)
	}
	return out
}
