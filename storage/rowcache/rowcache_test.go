package rowcache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"cqld/internal/mutant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/rowkey"
)

const table = schema.FirstStorageID

// keyOf returns the key of a row of a partition.
func keyOf(id schema.StorageID, t ring.Token, n int) []byte {
	key := rowkey.AppendPartition(nil, id, row.PartitionKey{Token: t, Bytes: []byte{byte(t), 'p'}})
	return rowkey.AppendSuffix(key, row.KindRow, binary.BigEndian.AppendUint32(nil, uint32(n)), nil)
}

// database is a model of the database below a cache: the entries that are visible.
type database map[string]string

// reading is a read of two rows of one partition, which is executed in steps.
type reading struct {
	keys  [2][]byte
	mark  Mark
	found [2]string // what the cache or an iterator showed, or ""
	hits  int       // of the cache
	step  int
}

// get searches the cache for a row.
func (r *reading) get(c *Cache, i int) {
	if value, found, present := c.Get(nil, &r.mark, r.keys[i]); found {
		r.hits++
		r.found[i] = ""
		if present {
			r.found[i] = string(value)
		}
	}
}

// writing is a write of some keys, or of a range, which is executed in steps.
type writing struct {
	keys       [][]byte
	start, end []byte
	value      string
	w          *Write
	step       int
}

// TestHitsAreWhatTheDatabaseShows executes steps of several reads and writes in random order. What the cache finds must
// be what an iterator would show at that time, and two entries of a partition must belong to one state of it.
func TestHitsAreWhatTheDatabaseShows(t *testing.T) {
	hits, wrong := interleave(400, true)
	if wrong != "" {
		t.Fatal(wrong)
	}
	if hits < 1_000 {
		t.Fatalf("only %d reads were served by the cache", hits)
	}
}

// TestRulesAreNecessary shows that TestHitsAreWhatTheDatabaseShows finds writes that leave what they change, and reads
// that add what a write has changed meanwhile.
func TestRulesAreNecessary(t *testing.T) {
	for _, key := range []string{"rowcache/written-row-stays", "rowcache/removed-range-stays",
		"rowcache/added-beside-a-write"} {
		t.Run(key, func(t *testing.T) {
			mutant.Need(t, key)
			if _, wrong := interleave(400, true); wrong == "" {
				t.Fatal("no read found a wrong row")
			}
		})
	}
}

// TestEntriesOfTwoStatesAreFound shows that two entries may belong to different states of the partition if a read does
// not call Unchanged.
func TestEntriesOfTwoStatesAreFound(t *testing.T) {
	if _, wrong := interleave(400, false); wrong == "" {
		t.Fatal("without the comparison, no read was wrong")
	}
}

// interleave executes steps of reads and writes with so many seeds. It returns how many reads the cache has served, and
// describes the first one that was wrong. Without compares, reads do not call Unchanged.
func interleave(seeds uint64, compares bool) (hits int, wrong string) {
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		c, db := New(BytesMin), database{}
		var reads []*reading
		var writes []*writing
		for i := range 4_000 {
			switch n := rng.IntN(10); {
			case n < 1 && len(reads) < 4:
				token := ring.Token(rng.IntN(4))
				id := table + schema.StorageID(rng.IntN(2))*tableGroups // in one group
				reads = append(reads, &reading{keys: [2][]byte{keyOf(id, token, rng.IntN(3)), keyOf(id, token, 3)}})
			case n < 2 && len(writes) < 3:
				writes = append(writes, drawWrite(rng, fmt.Sprint(i)))
			case n < 6 && len(reads) > 0:
				r := reads[rng.IntN(len(reads))]
				done, hit, wrong := r.run(c, db, compares)
				if wrong != "" {
					return hits, fmt.Sprintf("seed %d, step %d: %s", seed, i, wrong)
				}
				if done {
					reads = without(reads, r)
					hits += hit
				}
			case len(writes) > 0:
				if w := writes[rng.IntN(len(writes))]; w.run(c, db) {
					writes = without(writes, w)
				}
			}
		}
	}
	return hits, ""
}

func without[T comparable](list []T, x T) (out []T) {
	for _, e := range list {
		if e != x {
			out = append(out, e)
		}
	}
	return out
}

// drawWrite draws a write of keys of one partition, or of a range.
func drawWrite(rng *rand.Rand, value string) *writing {
	w := &writing{value: value}
	token := ring.Token(rng.IntN(4))
	id := table + schema.StorageID(rng.IntN(2))*tableGroups
	switch rng.IntN(12) {
	case 0: // a part of a partition
		w.start, w.end = keyOf(id, token, 1), keyOf(id, token, 4)
	case 1: // some partitions
		w.start, w.end = keyOf(id, token, 2), keyOf(id, token+2, 1)
	case 2: // a table
		w.start, w.end = rowkey.AppendTable(nil, id), rowkey.AppendTableEnd(nil, id)
	default:
		w.keys = [][]byte{keyOf(id, token, rng.IntN(3)), keyOf(id, token, 3)}
	}
	return w
}

// run executes the next step of a write: it begins, becomes visible, ends.
func (w *writing) run(c *Cache, db database) (done bool) {
	switch w.step++; w.step {
	case 1:
		w.w = c.Begin()
		for _, key := range w.keys {
			w.w.Key(key)
		}
		if w.start != nil {
			w.w.Range(w.start, w.end)
		}
	case 2:
		for _, key := range w.keys {
			db[string(key)] = w.value
		}
		for key := range db {
			if w.start != nil && bytes.Compare(w.start, []byte(key)) <= 0 && bytes.Compare([]byte(key), w.end) < 0 {
				delete(db, key)
			}
		}
	default:
		w.w.End()
		return true
	}
	return false
}

// run executes the next step of a read: it searches the cache, takes an iterator, adds what that shows. hit is 1 if the
// cache had both rows; wrong describes one that is not what the database shows.
func (r *reading) run(c *Cache, db database, compares bool) (done bool, hit int, wrong string) {
	id, k, _, _ := rowkey.Parse(r.keys[0])
	switch r.step++; r.step {
	case 1:
		r.mark = c.Mark(id, k.Token)
	case 2:
		r.get(c, 0)
	case 3:
		r.get(c, 1)
	case 4:
		if r.hits < 2 || compares && !r.mark.Unchanged() {
			return false, 0, ""
		}
		for i, key := range r.keys {
			if want := db[string(key)]; r.found[i] != want {
				return true, 0, fmt.Sprintf("the cache has %q for key %x, the database %q", r.found[i], key, want)
			}
		}
		return true, 1, ""
	case 5:
		for i, key := range r.keys {
			r.found[i] = db[string(key)]
		}
	default:
		for i, key := range r.keys {
			c.Add(&r.mark, key, []byte(r.found[i]), r.found[i] != "")
		}
		return true, 0, ""
	}
	return false, 0, ""
}

// TestConcurrentReadsNeverGoBack writes growing numbers into two rows of a partition at a time, while other goroutines
// read them: each sees the same number in both, and no smaller one than before.
func TestConcurrentReadsNeverGoBack(t *testing.T) {
	c := New(BytesMin)
	var db sync.RWMutex // a write becomes visible as a whole
	var number uint64
	var stop atomic.Bool
	var hits atomic.Int64
	keys := [2][]byte{keyOf(table, 5, 0), keyOf(table, 5, 1)}
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			last := uint64(0)
			for !stop.Load() {
				m := c.Mark(table, 5)
				a, foundA, _ := c.Get(nil, &m, keys[0])
				b, foundB, _ := c.Get(nil, &m, keys[1])
				if hit := foundA && foundB && m.Unchanged(); hit {
					hits.Add(1)
				} else {
					db.RLock()
					a = binary.BigEndian.AppendUint64(nil, number)
					db.RUnlock()
					b = a
					c.Add(&m, keys[0], a, true)
					c.Add(&m, keys[1], b, true)
				}
				n := binary.BigEndian.Uint64(a)
				if !bytes.Equal(a, b) || n < last {
					t.Errorf("%x and %x after %d", a, b, last)
					return
				}
				last = n
			}
		})
	}
	for i := 0; i < 5_000 || hits.Load() < 1_000 && !t.Failed(); i++ {
		w := c.Begin()
		w.Key(keys[0])
		w.Key(keys[1])
		db.Lock()
		number++
		db.Unlock()
		w.End()
	}
	stop.Store(true)
	readers.Wait()
}

// TestCacheIsBounded adds many entries of random sizes: the cache stays within its bytes, and has all of its bytes in
// use.
func TestCacheIsBounded(t *testing.T) {
	for _, size := range []int64{BytesMin, 1 << 20, 5 << 20} {
		for _, most := range []int{4, 300, 12 << 10} {
			c := New(size)
			rng := rand.New(rand.NewPCG(uint64(size), uint64(most)))
			value := make([]byte, most)
			keys := 2 * int(size) / (64 + most/2)
			for added := int64(0); added < 6*size; {
				n := rng.IntN(keys)
				key := keyOf(table, ring.Token(n), n)
				m := c.Mark(table, ring.Token(n))
				if _, found, _ := c.Get(nil, &m, key); !found {
					c.Add(&m, key, value[:rng.IntN(most)], true)
					added += 64 + int64(most/2)
				}
			}
			// Segments are never given back, so this is the most that was in use.
			if s := c.Stats(); s.Bytes > size || s.Entries == 0 || s.Hits == 0 {
				t.Fatalf("size %d, values of %d: %+v", size, most, s)
			}
		}
	}
}

// TestFrequentRowsStay reads few rows often between many rows that are read once.
func TestFrequentRowsStay(t *testing.T) {
	c := New(1 << 20)
	value := make([]byte, 100)
	read := func(n int) (hit bool) {
		key := keyOf(table, ring.Token(n), n)
		m := c.Mark(table, ring.Token(n))
		_, hit, _ = c.Get(nil, &m, key)
		if !hit {
			c.Add(&m, key, value, true)
		}
		return hit
	}
	const frequent = 500
	missed := 0
	for i := range 200_000 {
		if i%4 == 0 {
			if hit := read(i / 4 % frequent); !hit && i > 8*frequent {
				missed++
			}
		} else {
			read(frequent + i)
		}
	}
	if missed > 500 {
		t.Fatalf("%d of 50,000 reads of frequent rows missed", missed)
	}
}

// TestGetAllocatesNothing also holds for a write of keys that are not cached.
func TestGetAllocatesNothing(t *testing.T) {
	c := New(1 << 20)
	key := keyOf(table, 1, 1)
	m := c.Mark(table, 1)
	c.Add(&m, key, []byte("value"), true)
	buffer := make([]byte, 0, 100)
	if n := testing.AllocsPerRun(1000, func() {
		m := c.Mark(table, 1)
		if _, found, _ := c.Get(buffer, &m, key); !found {
			t.Fatal("not found")
		}
	}); n > 0 {
		t.Errorf("%v allocations of a read", n)
	}
	other := keyOf(table, 2, 1)
	if n := testing.AllocsPerRun(1000, func() {
		w := c.Begin()
		w.Key(other)
		w.End()
	}); n >= 1 { // the pool may be emptied by a collection
		t.Errorf("%v allocations of a write", n)
	}
}

// TestNilCacheIsEmpty calls what callers do without a cache.
func TestNilCacheIsEmpty(t *testing.T) {
	c := New(BytesMin - 1)
	w := c.Begin()
	w.Key(keyOf(table, 1, 1))
	w.Range([]byte{0}, []byte{1})
	w.Table(table)
	w.All()
	w.End()
	if s := c.Stats(); c != nil || s != (Stats{}) {
		t.Fatalf("%v, %+v", c, s)
	}
}

func BenchmarkHit(b *testing.B) {
	c, keys := benchCache(100_000)
	buffer := make([]byte, 0, 1000)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		n := i * 7919 % len(keys)
		m := c.Mark(table, ring.Token(n))
		if _, found, _ := c.Get(buffer, &m, keys[n]); !found || !m.Unchanged() {
			b.Fatal("not found")
		}
	}
}

// BenchmarkWriteOfUncachedKey removes keys that a full cache does not have, which each write of an ordinary table does.
func BenchmarkWriteOfUncachedKey(b *testing.B) {
	c, keys := benchCache(100_000)
	for i := range keys {
		keys[i] = append(keys[i], 'x')
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		w := c.Begin()
		w.Key(keys[i*7919%len(keys)])
		w.End()
	}
}

// benchCache returns a cache of n rows of 200 bytes, and their keys.
func benchCache(n int) (*Cache, [][]byte) {
	c := New(128 << 20)
	var keys [][]byte
	for i := range n {
		keys = append(keys, keyOf(table, ring.Token(i), i))
		m := c.Mark(table, ring.Token(i))
		c.Add(&m, keys[i], make([]byte, 200), true)
	}
	return c, keys
}
