package index

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
)

// TestSweepFollowsEveryChange makes all entries clean, and then one change of each kind that can leave an entry without
// its term. The next sweep must remove the entry, although it passes over tables without changes.
func TestSweepFollowsEveryChange(t *testing.T) {
	for name, change := range map[string]func(m *valuesRun){
		"write":     func(m *valuesRun) { m.apply(m.mutation()) },
		"ingestion": func(m *valuesRun) { m.ingest() },
		"lost range": func(m *valuesRun) {
			m.check("drop range", m.engine.DropRange(testTable, ring.Range{Start: 0, End: 1 << 62}))
		},
		"expiry": func(m *valuesRun) { m.clock.advance(2 * graceExpired * time.Second) },
		"dropped index": func(m *valuesRun) {
			m.known = m.known[1:]
			m.build(1)
			m.known = testDefinitions()
			m.build(1_000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(30) {
				m := newValuesRun(t, seed)
				m.known = testDefinitions()
				for range 20 {
					m.apply(m.mutation())
				}
				m.build(1_000)
				m.sweepEntries(m.clock.Now().Unix())
				change(m)
				now := m.clock.Now().Unix()
				m.sweepEntries(now)
				m.noStale(now)
				m.check("close", m.engine.Close())
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// newValuesRun returns a run with an empty table.
func newValuesRun(t *testing.T, seed uint64) *valuesRun {
	m := &valuesRun{t: t, rng: rand.New(rand.NewPCG(seed, 6)), clock: newTestClock(), disk: vfs.NewCrashableMem()}
	m.openEmpty(true)
	return m
}

// sweepEntries examines all entries that may be stale.
func (m *valuesRun) sweepEntries(now int64) {
	for wrapped, err := false, error(nil); !wrapped && err == nil; {
		_, wrapped, err = m.values.Sweep(1+m.rng.IntN(50), now)
		m.check("sweep of entries", err)
	}
}
