package tablestats

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"cqld/schema"
)

// Sample counts the most frequent partitions of a table during one toppartitions command. Requests find it by an atomic
// pointer, and a request that has loaded it may still add to it after StopSample, which is harmless.
type Sample struct {
	table         schema.StorageID
	Reads, Writes TopKeys
}

// StartSample begins to count the partitions of a table that requests use. It returns nil if another sample is not
// complete yet.
func (m *Engine) StartSample(table schema.StorageID) *Sample {
	s := &Sample{table: table}
	if !m.sample.CompareAndSwap(nil, s) {
		return nil
	}
	return s
}

// StopSample ends the sample that StartSample began.
func (m *Engine) StopSample() { m.sample.Store(nil) }

// topKeysKept is the number of keys that a sample keeps. A key that has more than 1/topKeysKept of all requests is
// guaranteed to be among them. Reads and writes are kept separately, so a sample has up to twice as many.
const topKeysKept = 1024

// TopKeys counts the most frequent keys in bounded memory, with the space-saving sketch (Metwally et al. 2005). A new
// key replaces the least frequent one, whose count becomes its error. Invariant: the true count of a key that is kept
// is in [Count-Error, Count].
type TopKeys struct {
	mu   sync.Mutex
	keys map[string]*TopKey
}

// TopKey is a frequent key. Its count is too large by at most Error.
type TopKey struct {
	Key          string
	Count, Error int64
}

// The lookup with string(key) does not allocate; a new key does.
func (t *TopKeys) add(key []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.keys[string(key)]; k != nil {
		k.Count++
		return
	}
	if t.keys == nil {
		t.keys = map[string]*TopKey{}
	}
	added := &TopKey{Key: string(key), Count: 1}
	if len(t.keys) >= topKeysKept {
		rarest := t.rarestLocked()
		delete(t.keys, rarest.Key)
		added.Count, added.Error = rarest.Count+1, rarest.Count
	}
	t.keys[added.Key] = added
}

// rarestLocked scans all keys, which takes a microsecond or two.
func (t *TopKeys) rarestLocked() *TopKey {
	var rarest *TopKey
	for _, k := range t.keys {
		if rarest == nil || k.Count < rarest.Count {
			rarest = k
		}
		if k.Count == 1 {
			break // no key can be less frequent
		}
	}
	return rarest
}

// Top returns at most n of the most frequent keys.
func (t *TopKeys) Top(n int) []TopKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []TopKey
	for _, k := range t.keys {
		all = append(all, *k)
	}
	slices.SortFunc(all, func(a, b TopKey) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Error, b.Error), strings.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}
