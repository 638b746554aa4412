package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/reading"
	"cqld/storage/tableinfo"
)

// hashAll hashes a range in steps of at most bytesMax.
func hashAll(t testing.TB, e *Engine, cmd reading.HashCommand) []reading.LeafHash {
	t.Helper()
	out := make([]reading.LeafHash, cmd.Leaves)
	for {
		next, _, err := e.Hash(&cmd, func(i int, h reading.LeafHash) { out[i].Add(h) })
		if err != nil {
			t.Fatal(err)
		}
		if cmd.After = next; next == nil {
			return out
		}
	}
}

// TestHashesMatchVisibleRows keeps two engines with the same random content but another history
// each: sweeps, folds, flushes and restarts at other times, changes in another order. Their hashes must be
// equal, also when they are made in other steps; and when one change is missing in one of them, they must
// differ exactly when a read does.
func TestHashesMatchVisibleRows(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			info := tableinfo.Info{Exists: true, GCGraceSeconds: metaGrace, GC: tableinfo.GCRepair}
			clock := newTestClock()
			m := &meta{t: t, rng: rng, clock: clock}
			var engines [2]*Engine
			for i := range engines {
				mine := info
				if i == 0 { // only one engine has been repaired
					mine.RepairedBefore = func(ring.Token) int64 { return clock.Now().Unix() - 5 }
				}
				engines[i] = openTest(t, Options{Clock: clock, Inline: true, FS: vfs.NewMem(), MemTableBytes: 1 << 15,
					Table: func(schema.StorageID) tableinfo.Info { return mine }})
				defer engines[i].Close()
			}
			var ms []*row.Mutation
			for range 60 {
				ms = append(ms, m.mutation())
			}
			missing := rng.IntN(2 * len(ms)) // in the second half: none
			for i, e := range engines {
				for _, n := range rng.Perm(len(ms)) {
					if i == 1 && n == missing {
						continue
					}
					mustApply(t, e, ms[n])
					if rng.IntN(10) == 0 {
						m.check("flush", e.Flush())
					}
				}
			}
			clock.advance(metaGrace / 2 * 1e9)
			for rng.IntN(3) > 0 {
				_, err := engines[rng.IntN(2)].Sweep(rng.IntN(100))
				m.check("sweep", err)
			}
			m.compareHashes(engines)
		})
	}
}

func (m *meta) compareHashes(engines [2]*Engine) {
	r := ring.Range{Start: ring.MinToken, End: 7}
	if m.rng.IntN(2) == 0 {
		r = ring.Range{Start: -6, End: ring.MinToken}
	}
	now, leaves := m.clock.Now().Unix(), 1+m.rng.IntN(5)
	var hashes [2][]reading.LeafHash
	for i, e := range engines {
		hashes[i] = hashAll(m.t, e, reading.HashCommand{Table: testTable, Tokens: r, Leaves: leaves, Now: now,
			BytesMax: 1 +
				m.rng.Int64N(300)})
	}
	for i := range leaves {
		cmd := &row.ReadCommand{Table: testTable, Range: row.KeyRange{Tokens: r.Part(i, leaves)},
			Slices: []row.Slice{row.AllRows()}, Now: now}
		if cmd.Range.Tokens.Start == cmd.Range.Tokens.End {
			continue
		}
		var pages [2]string
		for n, e := range engines {
			// A page as of a table whose tombstones are purged by age alone.
			byAge := e.readOptions()
			byAge.Table = func(id schema.StorageID) tableinfo.Info {
				info := e.opts.Table(id)
				info.GC = tableinfo.GCTimeout
				return info
			}
			page, _, err := reading.New(byAge).Read(nil, cmd)
			m.check("read", err)
			pages[n] = string(page)
		}
		if (pages[0] == pages[1]) != (hashes[0][i] == hashes[1][i]) {
			m.t.Errorf("part %d: pages equal %v, hashes %x\n%s\n%s", i, pages[0] == pages[1],
				[2]reading.LeafHash{hashes[0][i], hashes[1][i]},
				describePage([]byte(pages[0])), describePage([]byte(pages[1])))
		}
	}
}

func TestHashRefusesUnsupportedRanges(t *testing.T) {
	e := openTest(t, Options{Inline: true})
	defer e.Close()
	for _, cmd := range []reading.HashCommand{
		{Table: testTable, Tokens: ring.Range{Start: 5, End: 1}, Leaves: 1},
		{Table: testTable, Tokens: ring.Range{Start: 1, End: 5}},
		{Table: testTable, Tokens: ring.FullRange(), Leaves: 1},
	} {
		if _, _, err := e.Hash(&cmd, nil); err == nil {
			t.Errorf("%+v was hashed", cmd)
		}
	}
}

// BenchmarkHash measures the cost of a repair for a replica: with small partitions, and with wide ones.
func BenchmarkHash(b *testing.B) {
	for _, shape := range []struct{ partitions, rows int }{{50_000, 1}, {500, 100}} {
		b.Run(fmt.Sprintf("partitions=%d/rows=%d", shape.partitions, shape.rows), func(b *testing.B) {
			e := openTest(b, Options{Inline: true})
			defer e.Close()
			value := string(make([]byte, 200))
			for p := range shape.partitions {
				var ms []*row.Mutation
				for r := range shape.rows {
					ms = append(ms, putRow(fmt.Sprint("key", p), r, 1, value))
				}
				mustApply(b, e, ms...)
			}
			if err := e.Flush(); err != nil {
				b.Fatal(err)
			}
			cmd := reading.HashCommand{Table: testTable, Tokens: ring.Range{Start: ring.MinToken, End: ring.MaxToken},
				Leaves: 1024, BytesMax: 1 << 20}
			b.ResetTimer()
			total := int64(0)
			for range b.N {
				cmd.After = nil
				for {
					next, scanned, err := e.Hash(&cmd, func(int, reading.LeafHash) {})
					if err != nil {
						b.Fatal(err)
					}
					total += scanned
					if cmd.After = next; next == nil {
						break
					}
				}
			}
			b.SetBytes(total / int64(b.N))
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*shape.partitions), "µs/partition")
		})
	}
}

// TestHashesDistinguishClusterings compares two engines with the same cells in rows of different clusterings.
func TestHashesDistinguishClusterings(t *testing.T) {
	var sums [2]reading.LeafHash
	for i, clustering := range []string{"a", "b"} {
		e := openTest(t, Options{Clock: newTestClock(), Inline: true, FS: vfs.NewMem()})
		defer e.Close()
		r := row.NewRow()
		r.Clustering = []byte(clustering)
		r.Liveness.Timestamp = 1
		m, key := &row.Mutation{}, row.NewPartitionKey([]byte("k"))
		m.Reset(schema.FirstStorageID, key)
		m.AddRow(r)
		mustApply(t, e, m)
		tokens := ring.Range{Start: key.Token - 1, End: key.Token}
		sums[i] = hashAll(t, e, reading.HashCommand{Table: schema.FirstStorageID, Tokens: tokens, Leaves: 1,
			BytesMax: 1 << 20})[0]
	}
	if sums[0] == sums[1] || sums[0].Rows != 1 {
		t.Errorf("rows of two clusterings have one hash: %+v", sums[0])
	}
}
