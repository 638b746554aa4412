package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// PartitionsRead asks for the partition keys of a table that has a partition index, in the order of their
// bytes: from From on, up to, and without, To, where nil is no end; Reversed from the end.
type PartitionsRead struct {
	Table    schema.StorageID
	From, To []byte
	Reversed bool
	Limit    int   // most keys in the answer
	Now      int64 // seconds; decides what has expired
	// Dead takes partitions without a live row into the answer, too: nobody looks whether they live.
	Dead bool
	// Holds, when it is not nil, says whose partitions are wanted; what else is there is left out.
	Holds func(ring.Token) bool
	// Cancel ends the step early, with an error; nil: nothing does.
	Cancel *env.Cancel
}

// PartitionsPage answers: every wanted partition that has a live row, up to and with Last. A live static
// row alone does not count. Of a partition with too many tombstones to be sure it is said that it lives.
type PartitionsPage struct {
	Keys    [][]byte
	Last    []byte // the last key that was looked at; nil when there is none
	More    bool   // there may be others behind Last
	Scanned int    // keys that were looked at
}

// Partitions is a step of a walk over partition keys. It is bounded: it ends at the Limit, or when it has
// looked at enough; the next one begins behind Last.
func (e *Engine) Partitions(q *PartitionsRead) (page PartitionsPage, err error) {
	if err := e.failedErr(); err != nil {
		return page, err
	}
	if lost := e.lost.overlaps(q.Table, ring.FullRange()); lost != nil {
		return page, lost.lostError()
	}
	if e.index.state(q.Table) != indexComplete {
		if !e.indexes(q.Table) {
			return page, fmt.Errorf("%w: table %s has no partition index", ErrInvalid, e.nameOf(q.Table))
		}
		if err := e.buildIndex(q.Table); err != nil {
			return page, err
		}
	}
	w := partitionWalk{e: e, q: q}
	err = w.run()
	if e.hot.count.Load() > 0 {
		e.foldHot()
	}
	if err == nil {
		err = e.failedErr()
	}
	if err == nil && !e.disk.full.Load() {
		for _, k := range w.gone {
			err = errors.Join(err, e.dropEntry(q.Table, k))
		}
	}
	if canceled(err) {
		e.counters.canceled.Add(1)
		return PartitionsPage{}, err
	}
	return w.page, e.failure(err)
}

// partitionWalk is the state of one step.
type partitionWalk struct {
	e          *Engine
	q          *PartitionsRead
	page       PartitionsPage
	gone       []row.PartitionKey // perhaps nothing is left of them
	bytes      int                // of the keys in the page
	tombstones int
	scratch    []byte
	reader     *reader // of the partitions; its iterator is opened once, after that of the entries
}

func (w *partitionWalk) run() error {
	o := &pebble.IterOptions{LowerBound: appendIndexEntry(nil, w.q.Table, w.q.From)}
	if o.UpperBound = prefixEnd(appendIndexTable(nil, w.q.Table)); w.q.To != nil {
		o.UpperBound = appendIndexEntry(nil, w.q.Table, w.q.To)
	}
	if bytes.Compare(o.LowerBound, o.UpperBound) >= 0 {
		return nil
	}
	iter, err := w.e.db.NewIter(o)
	if err != nil {
		return err
	}
	w.reader = w.e.readers.Get().(*reader)
	defer func() {
		if iter != nil { // a panic is on its way up
			_ = iter.Close()
		}
	}()
	err = w.reader.safely(func() error { return w.walk(iter) })
	w.e.readers.Put(w.reader)
	err = errors.Join(err, iter.Error(), iter.Close())
	iter = nil
	return err
}

// walk looks at the entries of the index.
func (w *partitionWalk) walk(iter *pebble.Iterator) (err error) {
	first, next := iter.First, iter.Next
	if w.q.Reversed {
		first, next = iter.Last, iter.Prev
	}
	valid := first()
	for ; valid && err == nil && !w.enough(); valid = next() {
		err = w.look(iter.Key()[indexFixed:])
	}
	w.page.More = valid
	return err
}

// enough says whether the step has done its share.
func (w *partitionWalk) enough() bool {
	return len(w.page.Keys) >= w.q.Limit || w.page.Scanned >= indexStepKeys || w.bytes >= indexStepBytes ||
		w.tombstones >= tombstonesFail
}

// look takes a key into the page when its partition lives. The key is valid during the call.
func (w *partitionWalk) look(key []byte) error {
	if w.page.Scanned++; w.page.Scanned%cancelEveryKey == 0 {
		if err := w.q.Cancel.Err(); err != nil {
			return err
		}
	}
	w.page.Last = append(w.page.Last[:0], key...)
	k := row.NewPartitionKey(key)
	if w.q.Holds != nil && !w.q.Holds(k.Token) {
		w.suspect(k)
		return nil
	}
	live, nothing, err := w.q.Dead, false, error(nil)
	if !live {
		live, nothing, err = w.alive(k)
	}
	switch {
	case err != nil:
		return err
	case live:
		w.page.Keys = append(w.page.Keys, slices.Clone(key))
		w.bytes += len(key)
	case nothing:
		w.suspect(k)
	}
	return nil
}

// suspect notes that a partition's entry may have to go.
func (w *partitionWalk) suspect(k row.PartitionKey) {
	if len(w.gone) < indexStepDropped {
		k.Bytes = append([]byte{}, k.Bytes...)
		w.gone = append(w.gone, k)
	}
}

// alive says whether a partition has a live row; nothing, whether a read would show nothing of it.
func (w *partitionWalk) alive(k row.PartitionKey) (live, nothing bool, err error) {
	if k.Bytes == nil {
		k.Bytes = []byte{}
	}
	cmd := row.ReadCommand{
		Table: w.q.Table, Key: k, Slices: []row.Slice{row.AllRows()}, Limits: row.Limits{Rows: 1}, Now: w.q.Now, Cancel: w.q.Cancel,
	}
	r := w.reader
	r.begin(w.e, w.scratch[:0], &cmd)
	r.pageBytes = math.MaxInt // the bound of tombstones is enough
	err = r.run()
	w.tombstones += r.tombstones
	live, nothing = r.live > 0, r.w.Len() == 0
	if w.scratch = r.w.Finish(false); cap(w.scratch) > indexStepBytes {
		w.scratch = nil
	}
	r.end()
	var tooMany *TooManyTombstones
	if errors.As(err, &tooMany) {
		return true, false, nil
	}
	return live, nothing, err
}
