package node

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"cqld/schema"
)

// sample counts the most frequent partitions of a table during one toppartitions command.
type sample struct {
	table         schema.StorageID
	reads, writes topKeys
}

// topKeysKept is the number of keys that a sample keeps. A key that has more than 1/topKeysKept of all requests is
// guaranteed to be among them.
const topKeysKept = 1024

// topKeys counts the most frequent keys in bounded memory, with the space-saving sketch (Metwally et al. 2005). A new
// key replaces the least frequent one, whose count becomes its error.
type topKeys struct {
	mu   sync.Mutex
	keys map[string]*topKey
}

type topKey struct {
	key          string
	count, error int64
}

func (t *topKeys) add(key []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.keys[string(key)]; k != nil {
		k.count++
		return
	}
	if t.keys == nil {
		t.keys = map[string]*topKey{}
	}
	added := &topKey{key: string(key), count: 1}
	if len(t.keys) >= topKeysKept {
		rarest := t.rarestLocked()
		delete(t.keys, rarest.key)
		added.count, added.error = rarest.count+1, rarest.count
	}
	t.keys[added.key] = added
}

// rarestLocked scans all keys, which takes a microsecond or two.
func (t *topKeys) rarestLocked() *topKey {
	var rarest *topKey
	for _, k := range t.keys {
		if rarest == nil || k.count < rarest.count {
			rarest = k
		}
		if k.count == 1 {
			break // no key can be less frequent
		}
	}
	return rarest
}

// top returns at most n of the most frequent keys.
func (t *topKeys) top(n int) []topKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []topKey
	for _, k := range t.keys {
		all = append(all, *k)
	}
	slices.SortFunc(all, func(a, b topKey) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.error, b.error), strings.Compare(a.key, b.key))
	})
	return all[:min(n, len(all))]
}
