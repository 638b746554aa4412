package simulation

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/search"
	"cqld/types"
	"cqld/types/similarity"
)

// nearests is the workload of searches for the nearest vectors. Its clients change rows as those of filtereds do, with
// vectors for values. Between two changes they search at QUORUM for the rows nearest to a vector, in their partition or
// in the whole ring, page after page. The rows of all pages are in the order of their scores. Those of the client's
// partition must be those of a model that has all acknowledged changes, each with its newest vector: so few vectors are
// found exactly, with a graph or without.
type nearests struct {
	filtereds
}

const nearestIndex = "nearest_v"

func nearestTable() *schema.CreateTable {
	t := filteredTable()
	t.Table = "nearests"
	t.ID = schema.UUID{}
	copy(t.ID[:], t.Table)
	for i := range t.Columns {
		if t.Columns[i].Name == "v" {
			t.Columns[i].Type = types.NewVector(types.Native(types.Float), 2)
		}
	}
	return t
}

// nearestKind is the entry of the workload. TestSim draws it besides those of workloadKinds.
func nearestKind() workloadKind {
	return workloadKind{name: "nearest", tables: tables(nearestTable()),
		make: func(c *Cluster) workload { return newNearests(c) }}
}

func newNearests(c *Cluster) *nearests {
	w := &nearests{filtereds{clients: newClients(c, "nearest"), table: c.table("nearests")}}
	w.drawn = w.vector
	for i := range filteredClients {
		w.parts = append(w.parts, &filteredPartition{key: row.NewPartitionKey([]byte("nearest" + strconv.Itoa(i)))})
	}
	return w
}

// vector draws one of few vectors, so that scores are equal now and then.
func (w *nearests) vector() []byte {
	b := binary.BigEndian.AppendUint32(nil, math.Float32bits(float32(w.rand.Intn(5))))
	return binary.BigEndian.AppendUint32(b, math.Float32bits(float32(w.rand.Intn(5))))
}

func (w *nearests) start() {
	w.launch(filteredClients+1, 30*time.Millisecond, func(l *process, client int, end func() bool) {
		if client == filteredClients {
			w.redefine(l, func(error) { end() })
			return
		}
		p := w.parts[client]
		if p.pending == nil && w.rand.Chance(500) {
			w.find(l, p, w.draw(ring.Quorum), func(error) { end() })
			return
		}
		if p.pending == nil {
			p.pending = w.change(l, p)
		}
		w.write(l, p, func(error) { end() })
	})
}

// redefine creates the index if it is missing, and drops it rarely.
func (w *nearests) redefine(l *process, done func(error)) {
	table := l.parts.View.Schema().Table(keyspace, w.table.Name)
	var change schema.Change
	switch {
	case table == nil:
	case table.Index(nearestIndex) == nil:
		change = w.definition()
	case w.rand.Chance(20):
		change = &schema.DropIndex{Keyspace: keyspace, Name: nearestIndex, IfExists: true}
	}
	if change == nil {
		done(nil)
		return
	}
	l.Soon(func() { l.cluster.StartSchema(change, done) })
}

func (w *nearests) definition() *schema.CreateIndex {
	return &schema.CreateIndex{Keyspace: keyspace, Table: w.table.Name, Name: nearestIndex, Column: "v",
		IfNotExists: true,
		Class:       schema.SAI, Target: schema.IndexSimple, Options: map[string]string{similarity.Option: "EUCLIDEAN"}}
}

// nearestQuery is a search for the rows nearest to a vector.
type nearestQuery struct {
	near  []byte
	whole bool // of the ring
	limit int  // of a page
	level ring.Consistency
}

func (w *nearests) draw(level ring.Consistency) *nearestQuery {
	return &nearestQuery{near: w.vector(), whole: w.rand.Chance(500), limit: 1 + w.rand.Intn(8), level: level}
}

// find searches page after page.
func (w *nearests) find(l *process, p *filteredPartition, q *nearestQuery, done func(error)) {
	w.tried++
	began, now := p.changes, clock{l}.Now().Unix()
	table := l.parts.View.Schema().Table(keyspace, w.table.Name)
	if table == nil || table.Index(nearestIndex) == nil {
		done(errNoIndex)
		return
	}
	req := &search.Request{Table: table, Index: table.Index(nearestIndex).ID, Tokens: ring.FullRange(),
		Order: search.ByScore, Near: q.near,
		Limit: q.limit, Consistency: q.level, Now: now, Timeout: operationTimeout}
	if !q.whole {
		req.Key = p.key
	}
	var found []filteredRow
	var next func()
	next = func() {
		l.parts.Searcher.Search(req, func(result *search.Result, err error) {
			if err == nil {
				found, err = w.addFound(found, result.Page, now)
			}
			w.c.kernel.Trace(fmt.Sprint("nearest search ", len(found), err))
			if err == nil && result.More && !bytes.Equal(req.From, result.Next) {
				again := *req
				again.From = result.Next
				req = &again
				next()
				return
			}
			if err == nil && result.More {
				w.c.fail("nearest: a search does not go on behind %x", result.Next)
			}
			if err == nil {
				w.compareScores(q, found)
			}
			if err == nil && p.changes == began && p.pending == nil {
				w.acked++
				err = w.compareNearest(p, q, found, now)
			}
			done(err)
		})
	}
	next()
}

// addFound appends the rows of a page.
func (w *nearests) addFound(to []filteredRow, page []byte, now int64) ([]filteredRow, error) {
	var r row.PageReader
	var x row.Row
	for r.Reset(page); r.NextPartition(); {
		for r.NextRow(&x) {
			to = append(to, filteredRow{key: string(r.Key.Bytes), clustering: string(x.Clustering),
				v: liveText(&x, now)})
		}
	}
	return to, r.Err()
}

// score is that of a row with a vector.
func (q *nearestQuery) score(r filteredRow) float32 {
	score, _ := similarity.Euclidean.Score(similarity.Decode(nil, q.near), similarity.Decode(nil, []byte(r.v)))
	return score
}

// compareScores checks that rows are in the order of their scores, and that each has a vector.
func (w *nearests) compareScores(q *nearestQuery, found []filteredRow) {
	for i, r := range found {
		switch {
		case r.v == "":
			w.c.fail("nearest: at %s, the row %x of %s has no vector", q.level, r.clustering, r.key)
		case i > 0 && q.score(found[i-1]) < q.score(r):
			w.c.fail("nearest: at %s, %x is before %x, which is nearer to %x", q.level, found[i-1].v, r.v, q.near)
		}
	}
}

// compareNearest compares what was found in a partition with the rows of the model that have vectors, the nearest
// first.
func (w *nearests) compareNearest(p *filteredPartition, q *nearestQuery, found []filteredRow, now int64) error {
	var want []filteredRow
	var r row.PageReader
	var x row.Row
	cmd := &row.ReadCommand{Table: w.table.StorageID, Key: p.key, Slices: []row.Slice{row.AllRows()}, Now: now}
	for r.Reset(p.model.Read(cmd)); r.NextPartition(); {
		for r.NextRow(&x) {
			if seen := (filteredRow{key: string(r.Key.Bytes), clustering: string(x.Clustering),
				v: liveText(&x, now)}); seen.v != "" {
				want = append(want, seen)
			}
		}
	}
	slices.SortStableFunc(want, func(a, b filteredRow) int { return cmp.Compare(q.score(b), q.score(a)) })
	found = slices.DeleteFunc(slices.Clone(found), func(r filteredRow) bool { return r.key != string(p.key.Bytes) })
	if r.Err() == nil && !slices.Equal(found, want) {
		w.c.fail("nearest: %s at %s near %x, whole ring %v, finds %q, not %q", p.key.Bytes, q.level, q.near, q.whole,
			found, want)
	}
	return r.Err()
}

// readBack sees to it that the last changes are made and that every node has built the index. Then it searches all
// partitions from every node: at QUORUM and, after repairs by searches and reads at ALL, at ONE, where a replica
// answers alone.
func (w *nearests) readBack() {
	w.c.must(w.c.present()[0], "the creation of an index of vectors", func(l *process, done func(error)) {
		l.Soon(func() { l.cluster.StartSchema(w.definition(), done) })
	})
	w.c.kernel.RunUntil(w.c.kernel.Now()+w.c.paced(20*time.Second), w.built)
	for _, p := range w.parts {
		if p.pending != nil {
			w.c.must(w.c.present()[0], "the last change of a partition with vectors",
				func(l *process, done func(error)) { w.write(l, p, done) })
		}
		for range 2 {
			w.c.everywhere("a search for vectors", func(l *process,
				done func(error)) {
				w.find(l, p, w.draw(ring.Quorum), done)
			})
		}
		w.c.must(w.c.present()[0], "a partition with vectors at ALL", func(l *process, done func(error)) {
			w.readAll(l, p, done)
		})
		w.c.everywhere("a search for vectors at ONE", func(l *process, done func(error)) {
			q := w.draw(ring.One)
			q.whole = false
			w.find(l, p, q, done)
		})
	}
}

// built reports whether every node has built the index.
func (w *nearests) built() bool {
	for _, n := range w.c.present() {
		if n.process == nil || n.process.parts == nil {
			continue
		}
		table := n.process.parts.View.Schema().Table(keyspace, w.table.Name)
		if table == nil || table.Index(nearestIndex) == nil ||
			!n.process.instance.Values.Built(table.StorageID, table.Index(nearestIndex).ID) {
			return false
		}
	}
	return true
}
