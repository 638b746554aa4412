package login

import (
	"container/list"
	"time"
)

// table is a map of bounded size that evicts the least recently used entry (LRU). It is not safe for concurrent use.
// All operations take constant time.
type table[K comparable, V any] struct {
	max     int
	order   *list.List // of *entry, the most recently used first
	entries map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newTable[K comparable, V any](most int) *table[K, V] {
	return &table[K, V]{max: most, order: list.New(), entries: map[K]*list.Element{}}
}

func (t *table[K, V]) get(key K) (value V, ok bool) {
	e := t.entries[key]
	if e == nil {
		return value, false
	}
	t.order.MoveToFront(e)
	return e.Value.(*entry[K, V]).value, true
}

func (t *table[K, V]) put(key K, value V) {
	if e := t.entries[key]; e != nil {
		e.Value.(*entry[K, V]).value = value
		t.order.MoveToFront(e)
		return
	}
	t.entries[key] = t.order.PushFront(&entry[K, V]{key, value})
	if t.order.Len() > t.max {
		t.remove(t.order.Back().Value.(*entry[K, V]).key)
	}
}

func (t *table[K, V]) remove(key K) {
	if e := t.entries[key]; e != nil {
		t.order.Remove(e)
		delete(t.entries, key)
	}
}

// backoff counts the failures of each key and determines how long further guesses are rejected. An evicted entry
// loses its failures, because the bound on memory takes precedence over the bound on guesses.
type backoff[K comparable] struct {
	policy policy
	table  *table[K, failures]
}

type failures struct {
	count int
	last  time.Duration // when the count was last changed, on the monotonic clock
	until time.Duration // when the next guess is allowed
}

func newBackoff[K comparable](p policy, most int) *backoff[K] {
	return &backoff[K]{policy: p, table: newTable[K, failures](most)}
}

// wait returns how long guesses for key are still rejected. Zero means that one is allowed.
func (b *backoff[K]) wait(key K, now time.Duration) time.Duration {
	f, ok := b.table.get(key)
	if !ok {
		return 0
	}
	return max(f.until-now, 0)
}

// failed counts a wrong guess. A shift by the number of calm periods halves the count once for each.
func (b *backoff[K]) failed(key K, now time.Duration) {
	f, _ := b.table.get(key)
	f.count >>= min((now-f.last)/b.policy.calm, 32)
	f.count, f.last = f.count+1, now
	if over := f.count - b.policy.free; over > 0 {
		f.until = now + b.policy.delay(over)
	}
	b.table.put(key, f)
}

// forget removes the failures of key.
func (b *backoff[K]) forget(key K) { b.table.remove(key) }

// delay returns how long guesses are refused after the over-th failure that is not free.
func (p policy) delay(over int) time.Duration {
	d := p.first
	for ; over > 1 && d < p.most; over-- {
		d *= 2
	}
	return min(d, p.most)
}
