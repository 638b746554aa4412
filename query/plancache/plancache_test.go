package plancache

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestCacheIsBounded(t *testing.T) {
	c := New[string, string](100 * Size(10))
	keep, p := "keep", "0123456789"
	c.Put(keep, &p, len(p), nil)
	for i := range 10000 {
		c.Put(fmt.Sprint(i), &p, len(p), nil)
		if i%10 == 0 && c.Get(keep) == nil {
			t.Fatalf("a plan in use was dropped at %d", i)
		}
	}
	if n := len(c.Entries()); n > 100 || n < 90 {
		t.Errorf("%d plans are kept, want about 100", n)
	}
}

func TestStaleEntriesArePutAgain(t *testing.T) {
	c := New[string, string](1 << 20)
	k, p := "k", "plan"
	e := c.Put(k, &p, 4, []byte("a"))
	e.MarkStale()
	if again := c.Put(k, &p, 4, []byte("a")); again != e || again.Stale() || again.Changed {
		t.Error("the same columns are not the same entry")
	}
	e.MarkStale()
	again := c.Put(k, &p, 4, []byte("b"))
	if again == e || again.Stale() || !again.Changed || !again.Knows([]byte("b")) || again.Knows([]byte("a")) ||
		c.Get(k) != again {
		t.Error("other columns are not another entry")
	}
}

// TestNewEntriesStayForARevolution adds entries to a full cache whose entries are all in use: a statement that was just
// prepared must not be the next one that is evicted.
func TestNewEntriesStayForARevolution(t *testing.T) {
	c := New[string, string](100 * Size(10))
	p := "0123456789"
	for i := range 100 {
		c.Put(fmt.Sprint("old", i), &p, len(p), nil)
	}
	for _, e := range c.Entries() {
		c.Get(e.Key)
	}
	for i := range 50 {
		c.Put(fmt.Sprint("new", i), &p, len(p), nil)
	}
	there := map[string]bool{}
	for _, e := range c.Entries() {
		there[e.Key] = true
	}
	for i := range 50 {
		if !there[fmt.Sprint("new", i)] {
			t.Errorf("new%d was evicted by one of the next %d", i, 49-i)
		}
	}
}

// TestClockEvictsAsAList compares the cache with a list of keys, in which the hand is a position.
func TestClockEvictsAsAList(t *testing.T) {
	const room = 20
	r := rand.New(rand.NewPCG(1, 2))
	c, p := New[string, string](room*Size(10)), "0123456789"
	var (
		list []string // in the order in which the hand reaches them
		used = map[string]bool{}
	)
	for step := range 20_000 {
		key := fmt.Sprint(r.IntN(2 * room))
		there := slices.Contains(list, key)
		if (c.Get(key) != nil) != there {
			t.Fatalf("step %d: entry %s is there: %v", step, key, !there)
		}
		if there && r.IntN(3) > 0 {
			used[key] = true
			continue
		}
		used[key] = there
		resultID := []byte{byte(r.IntN(2))}
		if e := c.Put(key, &p, len(p), resultID); there {
			used[key] = e.used.Load() // not, if it is a new entry
			continue
		}
		for len(list) == room {
			first := list[0]
			if list = list[1:]; used[first] {
				used[first], list = false, append(list, first)
			}
		}
		list = append(list, key)
	}
	if n := len(c.Entries()); n != room || c.mu.bytes != room*Size(10) {
		t.Errorf("%d entries of %d bytes", n, c.mu.bytes)
	}
}

// BenchmarkPut adds plans to a full cache of the default size, which has about 10,000 plans of small statements.
func BenchmarkPut(b *testing.B) {
	c := New[[16]byte, string](10_000 * Size(10))
	p := "0123456789"
	for i := uint64(0); b.Loop(); i++ {
		var id [16]byte
		binary.BigEndian.PutUint64(id[:], i)
		c.Put(id, &p, len(p), nil)
	}
}

func BenchmarkGet(b *testing.B) {
	c := New[[16]byte, string](100 * Size(10))
	p := "0123456789"
	for i := range 50 {
		c.Put([16]byte{byte(i), 1, 2, 3}, &p, len(p), nil)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if c.Get([16]byte{byte(i % 50), 1, 2, 3}) == nil {
			b.Fatal("not found")
		}
	}
}
