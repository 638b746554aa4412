package index

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/cputime"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/types"
)

// openValues opens an engine with an index of column 3, or without one.
func openValues(b testing.TB, indexed bool) (*engine, *Values) {
	def := Definition{ID: ofValue, Terms: ColumnTerms(&schema.Column{ID: 3, Kind: schema.Regular,
		Type: types.Native(types.Text)}, Cell)}
	x := NewValues(func(schema.StorageID) []Definition {
		if !indexed {
			return nil
		}
		return []Definition{def}
	})
	o := storage.Options{FS: vfs.Default, Dir: b.TempDir(), CacheBytes: 256 << 20, Sync: storage.SyncNone,
		Clock: newTestClock()}
	MaintainValues(&o, x)
	e, err := storage.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	for more := indexed; more; {
		if more, err = x.Build(testTable, ofValue); err != nil {
			b.Fatal(err)
		}
	}
	return &engine{Engine: e}, x
}

// valuesMutation makes m the insert of a row of about 200 bytes into a new partition.
func valuesMutation(m *row.Mutation, r *row.Row, i int, value, rest []byte) {
	benchMutation(m, r, benchKey(i), 1, rest)
	r.Cells[0].Value = value
	m.Reset(testTable, m.Key)
	m.AddRow(r)
}

// The next two insert rows into partitions of their own, without and with an index of one column. They report the
// processor time, with that of flushes and compactions meanwhile.

func BenchmarkInsertPlain(b *testing.B)   { benchInsert(b, false) }
func BenchmarkInsertIndexed(b *testing.B) { benchInsert(b, true) }

func benchInsert(b *testing.B, indexed bool) {
	e, _ := openValues(b, indexed)
	defer e.Close()
	m, r, rest := new(row.Mutation), row.NewRow(), []byte("0123456789abcdefghijklmnopqrstuvwxyz")
	ms := []*row.Mutation{m}
	var wait sync.WaitGroup
	done := func(error) { wait.Done() }
	value := make([]byte, 8)
	before := cputime.Process()
	b.ReportAllocs()
	for i := range b.N {
		binary.BigEndian.PutUint64(value, uint64(i%100_000))
		valuesMutation(m, r, i, value, rest)
		wait.Add(1)
		if err := e.Apply(ms, true, done); err != nil {
			b.Fatal(err)
		}
		if i%64 == 63 {
			wait.Wait()
		}
	}
	wait.Wait()
	b.ReportMetric(float64(cputime.Process()-before)/float64(b.N), "cpu-ns/op")
}

// BenchmarkSearch finds the first 10 and all 100 rows of a value among 1,000,000 rows. It reports the processor time,
// because others may use the machine.
func BenchmarkSearch(b *testing.B) {
	const rows, matches = 1_000_000, 100
	e, x := openValues(b, true)
	defer e.Close()
	load(b, e, rows, rows/matches)
	value := make([]byte, 8)
	for _, limit := range []int{1, 10, 100} {
		b.Run(strconv.Itoa(limit), func(b *testing.B) {
			b.ReportAllocs()
			search := func(i int) {
				binary.BigEndian.PutUint64(value, uint64(i%50))
				term := types.Native(types.Text).AppendOrdered(nil, value, false)
				page, err := x.Search(&Query{Table: testTable, Index: ofValue, Order: ByToken,
					Tokens: ring.FullRange(), Limit: limit, Now: 5,
					Terms: []row.Slice{row.ExactRow(term)}})
				if err != nil || len(page.Candidates) != limit {
					b.Fatal(len(page.Candidates), page.More, err)
				}
			}
			for i := range 50 {
				search(i)
			}
			before := cputime.Process()
			b.ResetTimer()
			for i := range b.N {
				search(i)
			}
			b.ReportMetric(float64(cputime.Process()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkSearchRange finds the first rows of a range of terms in the order of tokens, among 1,000,000 rows of which
// one in every has a term in it: with the rows of the table and by entries alone, after the same load.
func BenchmarkSearchRange(b *testing.B) {
	const rows = 1_000_000
	e, x := openValues(b, true)
	defer e.Close()
	load(b, e, rows, rows)
	for _, every := range []int{1, 10, 100, 1_000} {
		for _, limit := range []int{11, 1_000} {
			for _, entries := range []int{rangeEntries, rows + 1} {
				b.Run(fmt.Sprintf("every=%d/limit=%d/table=%v", every, limit, entries == rangeEntries),
					func(b *testing.B) {
						x.ranges.entries = entries
						end := binary.BigEndian.AppendUint64(nil, uint64(rows/every))
						q := &Query{Table: testTable, Index: ofValue, Order: ByToken, Tokens: ring.FullRange(),
							Limit: limit, Now: 5,
							Terms: []row.Slice{{End: types.Native(types.Text).AppendOrdered(nil, end, false)}}}
						before := cputime.Process()
						for b.Loop() {
							if page, err := x.Search(q); err != nil || len(page.Candidates) != limit {
								b.Fatal(len(page.Candidates), err)
							}
						}
						b.ReportMetric(float64(cputime.Process()-before)/float64(b.N)/1000, "cpu-µs/op")
					})
			}
		}
	}
}

// load inserts rows, each in its own partition, with values from 0 to values-1, and waits until compactions have ended.
func load(b *testing.B, e *engine, rows, values int) {
	m, r, value := new(row.Mutation), row.NewRow(), make([]byte, 8)
	for i := range rows {
		binary.BigEndian.PutUint64(value, uint64(i%values))
		valuesMutation(m, r, i, value, []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
		if i%1000 == 999 {
			mustApply(b, e, m) // and wait
		} else {
			mustQueue(b, e, m)
		}
	}
	if err := e.Flush(); err != nil {
		b.Fatal(err)
	}
	settle(b)
}

// settle waits until compactions have ended: they take processor time, too.
func settle(b *testing.B) {
	for before := time.Duration(0); ; {
		now := cputime.Process()
		if now-before < 2*time.Millisecond {
			return
		}
		before = now
		time.Sleep(300 * time.Millisecond)
	}
}
