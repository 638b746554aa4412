package memory

import (
	"runtime"
	"testing"
	"time"

	"cqld/internal/await"
)

// The heap of a Pacer with a live heap that grows has the same garbage at any size, and GOGC=400 has five times the
// live heap.
func TestPacerAllowsBytes(t *testing.T) {
	d, err := Divide(1<<30, "the test", Figures{})
	if err != nil {
		t.Fatal(err)
	}
	p := NewPacer(&d)
	live := int64(0)
	p.live = func() int64 { return live }
	p.percent = func(int) int { return 100 }
	for _, live = range []int64{1, 10 * mib, 50 * mib, 200 * mib, 400 * mib, 640 * mib} {
		garbage := live * int64(p.next()) / 100
		if garbage > p.allowance || live >= 50*mib && garbage < p.allowance*9/10 {
			t.Errorf("%d MiB of live heap: %d MiB of garbage, want %d", live/mib, garbage/mib, p.allowance/mib)
		}
	}
	if live = 64 << 30; p.next() != percentMin {
		t.Errorf("a heap above all bounds: %d", p.next())
	}
}

// On a machine with much memory, a node with little data has as much garbage as live memory, and at least 128 MiB of
// it if its live heap is not a quarter of that. GOGC=400 made 80 MiB of live heap 400.
func TestPacerKeepsSmallHeapsSmall(t *testing.T) {
	d, err := Divide(24<<30, "the test", Figures{})
	if err != nil {
		t.Fatal(err)
	}
	p := NewPacer(&d)
	live := int64(0)
	p.live = func() int64 { return live }
	for _, live = range []int64{1, 20 * mib, 32 * mib, 80 * mib, 128 * mib, 1 << 30, 2 << 30, 16 << 30} {
		garbage := live * int64(p.next()) / 100
		if most := min(p.allowance, max(garbageMin, live), 4*live); garbage > most || garbage < most*9/10 {
			t.Errorf("%d MiB of live heap: %d MiB of garbage, want %d", live/mib, garbage/mib, most/mib)
		}
	}
}

// After a collection that found more live memory, the pace changes; after Close it is the initial one.
func TestPacerFollowsTheCollector(t *testing.T) {
	d, err := Divide(1<<30, "the test", Figures{})
	if err != nil {
		t.Fatal(err)
	}
	p := NewPacer(&d)
	p.Start()
	defer p.Close()
	pace := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.set
	}
	var held [][]byte
	for range 20 {
		held = append(held, make([]byte, 10*mib))
	}
	runtime.GC()
	if !await.Reached(10*time.Second, func() bool { runtime.GC(); return pace() <= 80 }) {
		t.Errorf("GOGC is %d with 200 MiB of live heap and %d MiB of garbage", pace(), p.allowance/mib)
	}
	runtime.KeepAlive(held)
	former := p.former
	p.Close()
	if now := p.percent(former); now != former {
		t.Errorf("GOGC is %d after Close, and was %d before", now, former)
	}
}
