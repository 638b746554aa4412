package index

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/row"
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
		"expiry": func(m *valuesRun) {
			m.clock.advance(time.Hour)
			for wrapped, err := false, error(nil); !wrapped && err == nil; {
				wrapped, err = m.engine.Sweep(100)
				m.check("purge", err)
			}
		},
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
				m.sweepEntries(m.clock.Now().Unix())
				m.noStale()
				m.check("close", m.engine.Close())
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// TestSteppedClockKeepsEntries checks that a clock that steps forward and back removes no entry of a live row.
func TestSteppedClockKeepsEntries(t *testing.T) {
	m := newValuesRun(t, 1)
	defer func() { _ = m.engine.Close() }()
	m.known = testDefinitions()
	x := new(row.Mutation)
	x.Reset(testTable, row.NewPartitionKey([]byte("k")))
	r := row.NewRow()
	r.Clustering = clusteringOf(1)
	expires := m.clock.Now().Unix() + 600
	r.Cells = []row.Cell{{Column: 3, Timestamp: 1, Value: []byte("a"), TTL: 600, LocalTime: expires}}
	x.AddRow(r)
	m.apply(x)
	m.build(1_000)
	m.sweepEntries(m.clock.Now().Unix())
	// The table is clean, so the sweep has to be wanted by another change.
	m.apply(x)
	const step = 48 * time.Hour
	m.clock.advance(step)
	m.sweepEntries(m.clock.Now().Unix())
	m.clock.advance(-step)
	def := m.known[0]
	page, err := m.values.Search(&Query{Table: testTable, Index: def.ID, Order: ByToken, Tokens: ring.FullRange(),
		Limit: 10, Terms: []row.Slice{{}}, Now: m.clock.Now().Unix()})
	if err != nil || len(page.Candidates) != 1 {
		t.Errorf("%d rows found, error %v; the row is live for 10 minutes", len(page.Candidates), err)
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
