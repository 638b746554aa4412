package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/model"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/tableinfo"
	"cqld/types/similarity"
)

const vectorIndex schema.StorageID = 2000

// vectorRun compares searches ByScore with a model, across all that changes rows.
type vectorRun struct {
	t      *testing.T
	rng    *rand.Rand
	disk   *vfs.MemFS
	def    Definition
	values *Values
	engine *storage.Engine
	model  model.Table
	at     int64
	graphs int // searches of a graph
}

func vectorDefinition(f similarity.Function) Definition {
	return CellVectors(vectorIndex, &schema.Column{ID: 3}, Vectors{Dimensions: 3, Similarity: f})
}

func (m *vectorRun) open() {
	m.t.Helper()
	m.values = NewValues(func(id schema.StorageID) []Definition {
		if id == testTable {
			return []Definition{m.def}
		}
		return nil
	})
	o := storage.Options{Dir: "db", FS: m.disk, Clock: newTestClock(), Inline: true, Table: tables(tableinfo.GCTimeout)}
	MaintainValues(&o, m.values)
	var err error
	if m.engine, err = storage.Open(o); err != nil {
		m.t.Fatal(err)
	}
	for more := true; more; {
		if more, err = m.values.Build(testTable, vectorIndex); err != nil {
			m.t.Fatal(err)
		}
	}
}

func encodeVector(v ...float32) (out []byte) {
	for _, e := range v {
		out = binary.BigEndian.AppendUint32(out, math.Float32bits(e))
	}
	return out
}

// random returns a vector of few values, so that scores are equal now and then. Some have no cosine.
func (m *vectorRun) random() []byte {
	n := func() float32 { return float32(m.rng.IntN(7) - 3) }
	return encodeVector(n(), n(), n())
}

func (m *vectorRun) key() string { return string(rune('a' + m.rng.IntN(12))) }

func (m *vectorRun) apply(x *row.Mutation) {
	m.t.Helper()
	done := make(chan error, 1)
	if err := m.engine.Apply([]*row.Mutation{x}, true, func(err error) { done <- err }); err != nil {
		m.t.Fatal(err)
	}
	if err := <-done; err != nil {
		m.t.Fatal(err)
	}
	m.model.Apply(x)
}

func (m *vectorRun) step() {
	m.at++
	switch n := m.rng.IntN(100); {
	case n < 70: // sometimes with an older timestamp
		m.apply(putRow(m.key(), m.rng.IntN(8), m.at-int64(m.rng.IntN(2)*m.rng.IntN(200)), string(m.random())))
	case n < 80: // null
		x := putRow(m.key(), m.rng.IntN(8), m.at, "")
		r := row.NewRow()
		r.Clustering = clusteringOf(m.rng.IntN(8))
		r.Cells = []row.Cell{{Column: 3, Timestamp: m.at, LocalTime: 100, Tombstone: true}}
		x.Reset(testTable, row.NewPartitionKey([]byte(m.key())))
		x.AddRow(r)
		m.apply(x)
	case n < 85:
		m.apply(deleteKey(m.key(), m.at, 100))
	case n < 86:
		if err := m.engine.Truncate(testTable); err != nil {
			m.t.Fatal(err)
		}
		m.model.Truncate()
	case n < 87:
		m.values.graphs.compare(vectorIndex)
	case n < 89:
		m.disk = m.disk.CrashClone(vfs.CrashCloneCfg{})
		_ = m.engine.Close()
		m.open()
	case n < 93:
		if _, err := m.values.Refresh([]schema.StorageID{testTable}, 1+m.rng.IntN(40)); err != nil {
			m.t.Fatal(err)
		}
	default:
		if m.values.graphs.find(vectorIndex).graph != nil {
			m.graphs++
		}
		m.search()
	}
}

// expected returns the positions of the rows in the order of their scores, by reading all of them.
func (m *vectorRun) expected(q *Query) (out [][]byte) {
	page := m.model.Read(&row.ReadCommand{Table: testTable, Range: row.KeyRange{Tokens: q.Tokens},
		Slices: []row.Slice{row.AllRows()}, Now: q.Now})
	var r row.PageReader
	var x row.Row
	near := similarity.Decode(nil, q.Near)
	for r.Reset(page); r.NextPartition(); {
		for r.NextRow(&x) {
			for _, c := range x.Cells {
				v := similarity.Decode(nil, c.Value)
				if len(v) == 3 && m.def.Vectors.Similarity.Comparable(v) {
					score, _ := m.def.Vectors.Similarity.Score(near, v)
					// positive, so in order
					code := binary.BigEndian.AppendUint64(nil, math.Float64bits(1e6-float64(score)))
					out = append(out, AppendPlace(code, r.Key, row.KindRow, x.Clustering))
				}
			}
		}
	}
	slices.SortFunc(out, bytes.Compare)
	for i := range out {
		out[i] = out[i][8:]
	}
	return out
}

func (m *vectorRun) search() {
	m.t.Helper()
	q := &Query{Table: testTable, Index: vectorIndex, Tokens: ring.FullRange(), Order: ByScore, Near: m.random(),
		Limit: 1 + m.rng.IntN(20), Now: 100}
	if m.rng.IntN(3) == 0 {
		q.Tokens = ring.Range{Start: ring.MinToken, End: ring.Token(m.rng.Uint64())}
	}
	if !m.def.Vectors.Similarity.Comparable(similarity.Decode(nil, q.Near)) {
		return
	}
	var got [][]byte
	for {
		page, err := m.values.Search(q)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, c := range page.Candidates {
			got = append(got, PlaceOf(ByScore, c.At))
		}
		if !page.More {
			break
		}
		if bytes.Compare(page.Last, q.From) <= 0 {
			m.t.Fatalf("a step ends at %x, and began at %x", page.Last, q.From)
		}
		q.From = slices.Clone(page.Last)
	}
	if want := m.expected(q); !slices.EqualFunc(got, want, bytes.Equal) {
		m.t.Fatalf("near %v: %x, expected %x", similarity.Decode(nil, q.Near), got, want)
	}
}

// TestSearchesByScoreEqualModel checks that searches find exactly the rows with vectors, the best scores first.
func TestSearchesByScoreEqualModel(t *testing.T) {
	for i, f := range []similarity.Function{similarity.Cosine, similarity.Euclidean, similarity.DotProduct} {
		t.Run(f.String(), func(t *testing.T) {
			m := &vectorRun{t: t, rng: rand.New(rand.NewPCG(uint64(i), 9)), disk: vfs.NewCrashableMem(),
				def: vectorDefinition(f), at: 1000}
			m.open()
			defer func() { _ = m.engine.Close() }()
			for range 2000 {
				m.step()
			}
			if m.graphs < 10 {
				t.Errorf("%d searches of a graph", m.graphs)
			}
		})
	}
}

// TestVectorsAreFoundOnceAcknowledged writes, deletes and searches in several goroutines while a graph is filled: a
// write that was acknowledged is found at once.
func TestVectorsAreFoundOnceAcknowledged(t *testing.T) {
	m := &vectorRun{t: t, disk: vfs.NewMem(), def: vectorDefinition(similarity.Euclidean)}
	m.open()
	defer func() { _ = m.engine.Close() }()
	var ended atomic.Bool
	var filled, writers sync.WaitGroup
	filled.Go(func() {
		for !ended.Load() {
			if _, err := m.values.Refresh([]schema.StorageID{testTable}, 20); err != nil {
				t.Error(err)
				return
			}
		}
	})
	apply := func(x *row.Mutation) {
		done := make(chan error, 1)
		if err := m.engine.Apply([]*row.Mutation{x}, true, func(err error) { done <- err }); err != nil {
			t.Error(err)
		} else if err := <-done; err != nil {
			t.Error(err)
		}
	}
	nearest := func(v []byte) (place string) {
		page, err := m.values.Search(&Query{Table: testTable, Index: vectorIndex, Tokens: ring.FullRange(),
			Order: ByScore, Near: v, Limit: 1, Now: 100})
		if err != nil {
			t.Error(err)
		}
		if len(page.Candidates) > 0 {
			place = string(PlaceOf(ByScore, page.Candidates[0].At))
		}
		return place
	}
	for w := range 3 {
		writers.Go(func() {
			for i := range 150 {
				key := fmt.Sprint(w)
				v := encodeVector(float32(w), float32(i%40), float32(i/40))
				at := string(AppendPlace(nil, row.NewPartitionKey([]byte(key)), row.KindRow, clusteringOf(i%40)))
				apply(putRow(key, i%40, int64(i+1), string(v)))
				if nearest(v) != at {
					t.Errorf("the vector of row %d of %s is not found", i, key)
				}
				if i%50 == 49 {
					apply(deleteKey(key, int64(i+1), 100))
					if nearest(v) == at {
						t.Errorf("row %d of %s is found, and was deleted", i, key)
					}
				}
			}
		})
	}
	writers.Wait()
	ended.Store(true)
	filled.Wait()
}

// All graphs together have a bound: the graph that exceeds it is given up, and searches compare entries.
func TestAllGraphsAreBounded(t *testing.T) {
	const most = 4000
	m := &vectorRun{t: t, rng: rand.New(rand.NewPCG(3, 4)), disk: vfs.NewMem(),
		def: vectorDefinition(similarity.Euclidean), at: 1000}
	m.open()
	defer func() { _ = m.engine.Close() }()
	m.values.SetGraphBytes(1<<30, most)
	for i := range 100 {
		m.at++
		m.apply(putRow(m.key(), i%8, m.at, string(m.random())))
		if _, err := m.values.Refresh([]schema.StorageID{testTable}, 1); err != nil {
			t.Fatal(err)
		}
		if s := m.values.GraphStats(); s.Bytes > most {
			t.Fatalf("%d bytes of graphs after %d rows", s.Bytes, i+1)
		}
	}
	if s := m.values.GraphStats(); s.Full != 1 || s.Bytes != 0 {
		t.Errorf("%+v", s)
	}
	m.search()
}

// inGraphOnly returns the number of stored entries, and fails the test unless the graph has exactly their vectors.
func (m *vectorRun) inGraphOnly() (stored int) {
	m.t.Helper()
	for more := true; more; {
		found, err := m.values.Refresh([]schema.StorageID{testTable}, 100)
		if err != nil {
			m.t.Fatal(err)
		}
		more = found.More
	}
	v := m.values.graphs.find(vectorIndex)
	if v.graph == nil || len(v.pending) > 0 {
		m.t.Fatalf("the graph is not ready, %d changes are pending", len(v.pending))
	}
	entries, err := m.values.host.Entries(testTable, appendIndex(nil, vectorIndex), appendIndex(nil, vectorIndex+1))
	if err != nil {
		m.t.Fatal(err)
	}
	defer entries.Close()
	for valid := entries.First(); valid; valid = entries.Next() {
		stored++
		if !v.nearest.Has(string(entries.Key())) {
			m.t.Errorf("the graph lacks the entry %x", entries.Key())
		}
	}
	if v.nearest.Len() != stored {
		m.t.Errorf("the graph has %d vectors of %d entries", v.nearest.Len(), stored)
	}
	return stored
}

// TestRemovedVectorsLeaveTheGraph overwrites, deletes and purges vectors. The graph keeps none whose entry is
// removed, which searches would compare and read in vain.
func TestRemovedVectorsLeaveTheGraph(t *testing.T) {
	m := &vectorRun{t: t, rng: rand.New(rand.NewPCG(5, 6)), disk: vfs.NewMem()}
	m.def = vectorDefinition(similarity.Euclidean)
	m.open()
	defer func() { _ = m.engine.Close() }()
	for i := range 60 {
		m.apply(putRow(string(rune('a'+i%6)), i, 10, string(encodeVector(float32(i), 1, 2))))
	}
	if n := m.inGraphOnly(); n != 60 {
		t.Fatalf("%d entries of 60 rows", n)
	}
	sweep := func() {
		t.Helper()
		for wrapped, err := false, error(nil); !wrapped; {
			if wrapped, err = m.engine.Sweep(100); err != nil {
				t.Fatal(err)
			}
		}
		for wrapped, err := false, error(nil); !wrapped; {
			if _, wrapped, err = m.values.Sweep(100, 1<<40); err != nil {
				t.Fatal(err)
			}
		}
	}
	m.values.sweeps.patience = 0
	for i := range 20 { // other vectors
		m.apply(putRow(string(rune('a'+i%6)), i, 11, string(encodeVector(float32(i), 7, 2))))
	}
	sweep()
	if n := m.inGraphOnly(); n != 60 {
		t.Errorf("%d entries of 60 rows, 20 overwritten", n)
	}
	m.apply(deleteKey("a", 12, 100))
	sweep()
	if n := m.inGraphOnly(); n != 50 {
		t.Errorf("%d entries of 50 rows, after 10 were deleted", n)
	}
}

// TestChangedVectorIsFound replaces the vector of a row between the search for entries and the reads of rows. The row
// is found with one of its vectors, at the position of that vector, whichever of them is better.
func TestChangedVectorIsFound(t *testing.T) {
	for _, inGraph := range []bool{false, true} {
		for _, to := range []float32{0.5, 3.5, 9} {
			t.Run(fmt.Sprint("graph=", inGraph, ",to=", to), func(t *testing.T) {
				m := &vectorRun{t: t, rng: rand.New(rand.NewPCG(5, 6)), disk: vfs.NewMem(),
					def: vectorDefinition(similarity.Euclidean)}
				m.open()
				defer func() { _ = m.engine.Close() }()
				for i := range 6 {
					m.apply(putRow(string(rune('a'+i)), 0, 1, string(encodeVector(float32(1+i), 0, 0))))
				}
				if inGraph {
					m.inGraphOnly()
				}
				changed := false
				q := &Query{Table: testTable, Index: vectorIndex, Tokens: ring.FullRange(), Order: ByScore,
					Near: encodeVector(0, 0, 0), Limit: 10, Now: 100}
				q.Holds = func(ring.Token) bool {
					if !changed {
						changed = true
						m.apply(putRow("c", 0, 2, string(encodeVector(to, 0, 0))))
					}
					return true
				}
				page, err := m.values.Search(q)
				if err != nil {
					t.Fatal(err)
				}
				var got [][]byte
				for _, c := range page.Candidates {
					got = append(got, PlaceOf(ByScore, c.At))
				}
				if want := m.expected(q); !slices.EqualFunc(got, want, bytes.Equal) {
					t.Errorf("%x, expected %x", got, want)
				}
			})
		}
	}
}

// TestVectorThatLeavesTheGraphIsFound replaces the vector of a row while a graph is searched, and lets the graph apply
// the change. The search has passed the position of the new entry when the old entry is removed.
func TestVectorThatLeavesTheGraphIsFound(t *testing.T) {
	m := &vectorRun{t: t, rng: rand.New(rand.NewPCG(5, 6)), disk: vfs.NewMem(),
		def: vectorDefinition(similarity.Euclidean)}
	m.open()
	defer func() { _ = m.engine.Close() }()
	// As many that the graph is not searched as a list.
	for i := range 3_000 {
		m.apply(putRow("k", i, 1, string(encodeVector(float32(10+i%60), float32(i/60), 0))))
	}
	m.apply(putRow("first", 0, 1, string(encodeVector(1, 0, 0))))
	m.inGraphOnly()
	calls, last := 0, 0
	q := &Query{Table: testTable, Index: vectorIndex, Tokens: ring.FullRange(), Order: ByScore,
		Near: encodeVector(0, 0, 0), Limit: 1, Now: 100}
	search := func() string {
		page, err := m.values.Search(q)
		if err != nil || len(page.Candidates) == 0 {
			t.Fatalf("%d candidates, error %v", len(page.Candidates), err)
		}
		return string(PlaceOf(ByScore, page.Candidates[0].At))
	}
	q.Holds = func(ring.Token) bool {
		calls++
		return true
	}
	first := search()
	// The last call of the graph: one more belongs to the row that was read.
	calls, last = 0, calls-1
	q.Holds = func(ring.Token) bool {
		if calls++; calls != last {
			return true
		}
		was := m.def.appendEntry(nil, m.term(encodeVector(1, 0, 0)), &Source{Key: row.NewPartitionKey([]byte("first")),
			Kind: row.KindRow, Row: &row.Row{Clustering: clusteringOf(0)}})
		m.apply(putRow("first", 0, 2, string(encodeVector(2, 0, 0))))
		if err := m.values.removeStale(testTable, was); err != nil {
			t.Error(err)
		}
		if _, err := m.values.Refresh([]schema.StorageID{testTable}, 100); err != nil {
			t.Error(err)
		}
		return true
	}
	if search() != first {
		t.Error("the nearest row is not found while its vector changes")
	}
}

// TestUpdatesDoNotMakeSearchesScan replaces the vector of the nearest row during each attempt of each search, and lets
// the graph apply the change at once. No search looks at all entries, and all of them find the row.
func TestUpdatesDoNotMakeSearchesScan(t *testing.T) {
	m := &vectorRun{t: t, rng: rand.New(rand.NewPCG(5, 6)), disk: vfs.NewMem(),
		def: vectorDefinition(similarity.Euclidean)}
	m.open()
	defer func() { _ = m.engine.Close() }()
	// As many that the graph is not searched as a list.
	for i := range 3_000 {
		m.apply(putRow("k", i, 1, string(encodeVector(float32(10+i%60), float32(i/60), 0))))
	}
	nearest := func(version int) []byte { return encodeVector(float32(version%5), 1, 0) }
	m.apply(putRow("first", 0, 1, string(nearest(1))))
	m.inGraphOnly()
	started, ended := make(chan int), make(chan error)
	defer close(started)
	go func() {
		for version := range started {
			was := m.def.appendEntry(nil, m.term(nearest(version-1)), &Source{
				Key: row.NewPartitionKey([]byte("first")), Kind: row.KindRow,
				Row: &row.Row{Clustering: clusteringOf(0)}})
			m.apply(putRow("first", 0, int64(version), string(nearest(version))))
			err := m.values.removeStale(testTable, was)
			if _, e := m.values.Refresh([]schema.StorageID{testTable}, 100); err == nil {
				err = e
			}
			ended <- err
		}
	}()
	version, calls, running := 1, 0, false
	wait := func(d time.Duration) {
		select {
		case err := <-ended:
			if running = false; err != nil {
				t.Error(err)
			}
		case <-time.After(d): // the update waits for the search, or is slow
		}
	}
	q := &Query{Table: testTable, Index: vectorIndex, Tokens: ring.FullRange(), Order: ByScore,
		Near: encodeVector(0, 0, 0), Limit: 1, Now: 100}
	q.Holds = func(ring.Token) bool {
		if calls++; calls%60 == 1 {
			if !running {
				version, running = version+1, true
				started <- version
			}
			wait(20 * time.Millisecond)
		}
		return true
	}
	before := m.values.GraphStats()
	const searches = 10
	for range searches {
		page, err := m.values.Search(q)
		if err != nil || len(page.Candidates) != 1 {
			t.Fatalf("%d candidates, error %v", len(page.Candidates), err)
		}
		if key := page.Candidates[0].At; !bytes.Contains(key, []byte("first")) {
			t.Errorf("the nearest row is %x", key)
		}
		for running {
			wait(time.Second)
		}
	}
	after := m.values.GraphStats()
	if n := after.Scans - before.Scans; n > 0 {
		t.Errorf("%d of %d searches looked at all entries", n, searches)
	}
	if n := after.Searches - before.Searches; n <= searches {
		t.Errorf("%d attempts of %d searches: no update has disturbed one", n, searches)
	}
}

// TestDroppedGraphShowsRemovals drops a graph while its pending changes are applied: a search of it must see that an
// entry has left.
func TestDroppedGraphShowsRemovals(t *testing.T) {
	m := &vectorRun{t: t, rng: rand.New(rand.NewPCG(5, 6)), disk: vfs.NewMem(),
		def: vectorDefinition(similarity.Euclidean)}
	m.open()
	defer func() { _ = m.engine.Close() }()
	m.apply(putRow("a", 0, 1, string(encodeVector(1, 0, 0))))
	m.inGraphOnly()
	g := &m.values.graphs
	v := g.find(vectorIndex)
	g.forget(vectorIndex, m.def.appendEntry(nil, m.term(encodeVector(1, 0, 0)), &Source{
		Key: row.NewPartitionKey([]byte("a")), Kind: row.KindRow, Row: &row.Row{Clustering: clusteringOf(0)}}))
	g.drop(vectorIndex)
	if g.drain(v.graph, 10) != 1 || !g.removedSince(&v) {
		t.Error("an entry has left a graph that was dropped, and its searches do not see that")
	}
}

// term returns the term of a vector.
func (m *vectorRun) term(v []byte) []byte {
	x := row.Row{Cells: []row.Cell{{Column: 3, Value: v}}}
	var found Found
	m.def.Terms.Append(&found, &Source{Kind: row.KindRow, Row: &x}, anyTime)
	return found.Term(0)
}
