package compaction

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// backlog is a database that needs compactions. Like Pebble, it calls TrySchedule with its lock held, and not while it
// knows that a compaction is waiting.
type backlog struct {
	t *testing.T
	s *Scheduler

	mu      sync.Mutex
	rng     *rand.Rand
	allowed int
	wanted  int // compactions that have not started
	waiting bool
	running []pebble.CompactionGrantHandle
	most    int // running at a time, beyond allowed
}

func (b *backlog) GetAllowedWithoutPermission() int { return b.allowed }

func (b *backlog) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	b.mu.Lock()
	b.waiting = b.wanted > 0
	waiting, meanwhile := b.waiting, b.rng.IntN(4) == 0
	b.mu.Unlock()
	if meanwhile && !waiting {
		b.want(1, false) // as another goroutine may before the Scheduler knows the result
	}
	return waiting, pebble.WaitingCompaction{}
}

func (b *backlog) Schedule(h pebble.CompactionGrantHandle) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wanted == 0 {
		b.waiting = false
		return false
	}
	b.startLocked(h)
	return true
}

func (b *backlog) startLocked(h pebble.CompactionGrantHandle) {
	h.Started()
	b.wanted--
	b.running = append(b.running, h)
	b.most = max(b.most, len(b.running))
}

// want adds n wanted compactions, as a flush or a manual compaction does.
func (b *backlog) want(n int, flush bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted += n
	if flush {
		b.s.UpdateGetAllowedWithoutPermission()
	}
	for !b.waiting && b.wanted > 0 {
		ok, h := b.s.TrySchedule()
		if !ok {
			b.waiting = true
			return
		}
		b.startLocked(h)
	}
}

// finish ends a compaction, and reports whether one was running.
func (b *backlog) finish(rng *rand.Rand) bool {
	b.mu.Lock()
	if len(b.running) == 0 {
		b.mu.Unlock()
		return false
	}
	i := rng.IntN(len(b.running))
	h := b.running[i]
	b.running = append(b.running[:i], b.running[i+1:]...)
	b.mu.Unlock()
	h.Done()
	return true
}

// TestEveryWantedCompactionRuns lets flushes and ends of compactions race. All wanted compactions run, without any
// timer, and never more than allowed at a time.
func TestEveryWantedCompactionRuns(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := &backlog{t: t, s: new(Scheduler), rng: rand.New(rand.NewPCG(seed, 9)), allowed: 1 + rng.IntN(3)}
		b.s.Register(2, b)
		var work sync.WaitGroup
		for worker := range uint64(2) {
			own := rand.New(rand.NewPCG(seed, 2+worker))
			work.Go(func() {
				for range 50 {
					if own.IntN(2) == 0 {
						b.want(own.IntN(3), own.IntN(2) == 0)
					} else {
						b.finish(own)
					}
				}
			})
		}
		work.Wait()
		for {
			b.s.granting.Wait() // every granter has looked; only a Done can allow more
			if !b.finish(rng) {
				break
			}
		}
		if b.wanted > 0 {
			t.Fatalf("seed %d: %d wanted compactions never run", seed, b.wanted)
		}
		if b.most > b.allowed {
			t.Fatalf("seed %d: %d compactions run at a time, %d are allowed", seed, b.most, b.allowed)
		}
		b.s.Unregister()
		if ok, _ := b.s.TrySchedule(); ok {
			t.Fatal("a compaction is allowed after Unregister")
		}
	}
}

// TestPebbleCompacts checks that Pebble compacts on its own with a Scheduler, and closes.
func TestPebbleCompacts(t *testing.T) {
	o := &pebble.Options{FS: vfs.NewMem(), MemTableSize: 32 << 10, L0CompactionThreshold: 2, Logger: quiet{t}}
	o.Experimental.CompactionScheduler = new(Scheduler)
	compacted := make(chan struct{}, 1)
	o.EventListener = &pebble.EventListener{CompactionEnd: func(pebble.CompactionInfo) {
		select {
		case compacted <- struct{}{}:
		default:
		}
	}}
	db, err := pebble.Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 1<<10)
	for i := range uint64(500) {
		if err := db.Set(binary.BigEndian.AppendUint64(nil, i%100), value, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	<-compacted
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// quiet is a logger of Pebble that reports fatal errors only.
type quiet struct{ t *testing.T }

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (q quiet) Fatalf(format string, args ...any) {
	q.t.Errorf(format, args...)
}
