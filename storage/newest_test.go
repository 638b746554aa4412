package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cqld/row"
)

// change is one random change of the partition "k" with the rows 0 to 7, and what it touches.
type change struct {
	m        *row.Mutation
	from, to int // rows
	static   bool
}

func randomChange(rng *rand.Rand, stamp int64) change {
	c := change{m: new(row.Mutation)}
	c.m.Reset(testTable, row.NewPartitionKey([]byte("k")))
	c.from = rng.IntN(8)
	c.to = c.from + 1
	deletion := row.Deletion{Timestamp: stamp, LocalTime: 1_000_000}
	r := row.NewRow()
	switch rng.IntN(8) {
	case 0:
		r.Deletion = deletion
		c.m.AddHeader(r)
		c.from, c.to, c.static = 0, 8, true
	case 1:
		c.to = c.from + 1 + rng.IntN(4)
		c.m.AddRangeTombstone(row.RangeTombstone{Start: clusteringOf(c.from), End: clusteringOf(c.to),
			Deletion: deletion})
	case 2:
		r.Cells = []row.Cell{{Column: 2, Timestamp: stamp, Value: []byte("s")}}
		c.m.AddHeader(r)
		c.from, c.to, c.static = 0, 0, true
	case 3:
		r.Clustering, r.Deletion = clusteringOf(c.from), deletion
		c.m.AddRow(r)
	default:
		c.m = putRow("k", c.from, stamp, fmt.Sprint(stamp))
	}
	return c
}

// TestTimestampAfterNewestIsVisible: whatever a partition holds, a change with a later timestamp than the newest
// of what it touches takes effect as if there had been nothing; and the newest is no timestamp of elsewhere.
func TestTimestampAfterNewestIsVisible(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		e := openTest(t, Options{Inline: true})
		var history []change
		for range 40 {
			const asked = 1 << 40
			next := randomChange(rng, asked)
			cmd, _, err := next.m.Stamped(asked)
			if err != nil {
				t.Fatal(err)
			}
			newest, err := e.Newest(cmd)
			if err != nil {
				t.Fatal(err)
			}
			bound := int64(row.NoTimestamp)
			for _, h := range history {
				if h.from < next.to && next.from < h.to || h.static && next.static || h.static && h.to > 0 {
					bound = max(bound, stampOf(t, h.m))
				}
			}
			if newest > bound {
				t.Fatalf("seed %d: newest is %d, but only %d was written there", seed, newest, bound)
			}
			// Most changes have any time at all; some are stamped after the newest, and must be seen.
			stamp, after := rng.Int64N(1000), rng.IntN(4) == 0
			if after {
				stamp = max(newest+1, 0)
			}
			if next.m, err = next.m.Restamp(asked, stamp); err != nil {
				t.Fatal(err)
			}
			mustApply(t, e, next.m)
			history = append(history, next)
			if after {
				checkSeen(t, e, next, stamp)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// stampOf returns the only timestamp of a change.
func stampOf(t *testing.T, m *row.Mutation) int64 {
	e, es, newest := row.Entry{}, m.Entries(), int64(row.NoTimestamp)
	for es.Next(&e) {
		sum, err := row.Summarize(e.Value, 0)
		if err != nil {
			t.Fatal(err)
		}
		newest = max(newest, sum.TimestampMax)
	}
	return newest
}

// checkSeen checks that c, made at stamp, is visible to readers in the rows that it touched.
func checkSeen(t *testing.T, e *Engine, c change, stamp int64) {
	t.Helper()
	var page row.PageReader
	page.Reset(mustRead(t, e, readKey("k")))
	found := map[string]int64{}
	static := int64(row.NoTimestamp)
	for page.NextPartition() {
		for _, cell := range page.Header.Cells {
			static = cell.Timestamp
		}
		for r := (row.Row{}); page.NextRow(&r); {
			if r.Live(1_000_000) {
				found[string(r.Clustering)] = r.Cells[0].Timestamp
			}
		}
	}
	entry, es := row.Entry{}, c.m.Entries()
	for es.Next(&entry) {
		if row.Immortal(entry.Value) && entry.Kind == row.KindRow && found[string(entry.Start)] != stamp {
			t.Fatalf("row %x of %d is not seen: %v", entry.Start, stamp, found)
		}
	}
	if c.static && c.to == 0 && static != stamp {
		t.Fatalf("the static cell of %d is not seen, but one of %d", stamp, static)
	}
	if c.static && c.to > 0 && len(found) > 0 {
		t.Fatalf("after the partition was deleted at %d there are rows: %v", stamp, found)
	}
	for n := c.from; n < c.to; n++ {
		if at := found[string(clusteringOf(n))]; at != 0 && at < stamp {
			t.Fatalf("row %d of %d is there after %d", n, at, stamp)
		}
	}
}
