package compaction

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
)

// workClock is a clock on which each key that Pebble writes to a file takes some time, and nothing else takes any.
type workClock struct {
	env.Clock
	sync.Mutex
	now, yielded time.Duration
	yields, keys int
	longest      time.Duration // between two yields
}

func (c *workClock) Monotonic() time.Duration {
	c.Lock()
	defer c.Unlock()
	return c.now
}

func (c *workClock) yield() {
	c.Lock()
	defer c.Unlock()
	c.longest = max(c.longest, c.now-c.yielded)
	c.now += time.Second // the others' time, which must not count as this goroutine's
	c.yielded = c.now
	c.yields++
}

// slowKeys is a collector without properties.
type slowKeys struct {
	pebble.BlockPropertyCollector
	clock *workClock
	cost  time.Duration // of a key
}

func (s slowKeys) Name() string { return "slow" }

func (s slowKeys) AddPointKey(pebble.InternalKey, []byte) error {
	s.clock.Lock()
	defer s.clock.Unlock()
	s.clock.now += s.cost
	s.clock.keys++
	return nil
}

func (s slowKeys) FinishDataBlock(buf []byte) ([]byte, error)  { return buf, nil }
func (s slowKeys) FinishIndexBlock(buf []byte) ([]byte, error) { return buf, nil }
func (s slowKeys) FinishTable(buf []byte) ([]byte, error)      { return buf, nil }
func (s slowKeys) AddPrevDataBlockToIndexBlock()               {}

// TestFlushesAndCompactionsYield measures how long flushes and compactions run without a pause.
func TestFlushesAndCompactionsYield(t *testing.T) {
	const keys, cost = 10_000, 50 * time.Microsecond
	clock := &workClock{}
	create := func() pebble.BlockPropertyCollector { return slowKeys{clock: clock, cost: cost} }
	o := &pebble.Options{FS: vfs.NewMem(), Logger: quiet{t}, DisableAutomaticCompactions: true,
		FormatMajorVersion: pebble.FormatNewest}
	o.BlockPropertyCollectors = []func() pebble.BlockPropertyCollector{yielding(clock, create, clock.yield)}
	db, err := pebble.Open("", o)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 2 { // files that overlap, so that a compaction cannot move them
		for i := range uint64(keys) {
			if err := db.Set(binary.BigEndian.AppendUint64(nil, i), []byte("value"), pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(t.Context(), []byte{0}, []byte{0xFF}, false); err != nil {
		t.Fatal(err)
	}
	clock.Lock()
	defer clock.Unlock()
	if clock.keys != 3*keys {
		t.Fatalf("the collectors saw %d keys, not the keys of two flushes and a compaction", clock.keys)
	}
	work := time.Duration(clock.keys) * cost
	const unread = cost * clockBytes / keyCost // at most, between two readings of the clock
	if clock.longest > turn+unread || clock.yields < int(work/(turn+unread))-3 {
		t.Fatalf("%d yields in %v of work, at most %v apart", clock.yields, work, clock.longest)
	}
}
