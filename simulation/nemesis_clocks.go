package simulation

import (
	"time"

	"cqld/simulation/kernel"
)

// clockFaults change the wall clocks of nodes. Monotonic time is not affected, as in Linux, so timeouts stay correct.
// heal sets all clocks right.
type clockFaults struct{ c *Cluster }

// strikes returns the faults by kind.
func (f clockFaults) strikes() map[faultKind]func(*kernel.Stream) {
	return map[faultKind]func(*kernel.Stream){
		"clock-jump":   f.clockJump,
		"clock-drift":  f.clockDrift,
		"clock-strobe": f.clockStrobe,
		"clock-leap":   f.clockLeap,
	}
}

// clockJump changes a clock, by up to five seconds in either direction.
func (f clockFaults) clockJump(r *kernel.Stream) {
	// Offsets of several faults add up until the cluster is healed.
	f.c.any(r).wall.offset += r.Between(-5*time.Second, 5*time.Second)
}

// clockDrift makes a clock too fast or too slow, by up to a fifth. The unit is parts per million: 200,000 is a fifth.
func (f clockFaults) clockDrift(r *kernel.Stream) {
	f.c.any(r).wall.setDrift(f.c.kernel.Now(), int64(r.Intn(400_000))-200_000)
}

// clockStrobe makes a clock jump repeatedly.
func (f clockFaults) clockStrobe(r *kernel.Stream) {
	n, by := f.c.any(r), r.Between(time.Millisecond, 500*time.Millisecond)
	at := time.Duration(0)
	// The number of jumps may be odd; the clock then remains off by one of them.
	for range 10 + r.Intn(20) {
		by = -by
		f.c.later(at, "strobe", func() { n.wall.offset += by })
		at += r.Between(time.Millisecond, 40*time.Millisecond)
	}
}

// clockLeap changes a clock by up to three minutes, in either direction: by more than a timestamp may be ahead.
// Sometimes it is corrected later.
func (f clockFaults) clockLeap(r *kernel.Stream) {
	n := f.c.any(r)
	by := r.Between(stampAhead, 3*stampAhead)
	if r.Chance(500) {
		by = -by
	}
	n.wall.offset += by
	if r.Chance(600) {
		f.c.later(r.Between(50*time.Millisecond, 2*time.Second), "leap back", func() { n.wall.offset -= by })
	}
}
