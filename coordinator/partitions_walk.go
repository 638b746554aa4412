package coordinator

import (
	"bytes"
	"slices"
	"sync/atomic"
	"time"

	"cqld/ring"
	"cqld/row"
)

// walkRows is how many partitions one read of a walk asks for.
const walkRows = 1_000

// partitionsWalk lists the partitions of a table that nobody keeps in order: it reads one row of each
// partition, in the order of the ring, and keeps the first keys of the span.
type partitionsWalk struct {
	c        *Coordinator
	req      *PartitionsRequest
	limit    int
	done     func(*Partitions, error)
	deadline time.Duration
	cmd      row.ReadCommand
	keys     [][]byte
	bytes    int
	bound    []byte // keys at it or behind it are not wanted; nil while all are
	answer   Partitions

	// turn is 1 when one of the two has come: the page, or the return of the call that asked for it. Who
	// comes second goes on, so that answers that come at once do not nest.
	turn  atomic.Int32
	ended bool
}

func (c *Coordinator) walkPartitions(req *PartitionsRequest, limit int, done func(*Partitions, error)) {
	w := &partitionsWalk{c: c, req: req, limit: limit, done: done, deadline: c.clock.Monotonic() + req.Timeout}
	w.cmd = row.ReadCommand{
		Table: req.Table.StorageID, Range: row.KeyRange{Tokens: ring.FullRange()}, Slices: []row.Slice{row.AllRows()},
		Limits: row.Limits{Rows: walkRows, PerPartition: 1}, Now: req.Now, Cancel: req.Cancel,
	}
	w.run()
}

// run reads page after page.
func (w *partitionsWalk) run() {
	for {
		w.turn.Store(0)
		w.c.Read(&ReadRequest{
			Command: &w.cmd, Consistency: w.req.Consistency, Timeout: w.c.remaining(w.deadline), Trace: w.req.Trace, Cancel: w.req.Cancel,
		}, w.page)
		if w.turn.Add(1) == 1 || w.ended {
			return
		}
	}
}

// page is the event of a page.
func (w *partitionsWalk) page(page []byte, err error) {
	defer w.c.guard.Recover("coordinator partitions", func(err error) {
		w.ended = true
		w.tell(nil, err)
	})
	more := false
	if err == nil {
		more, err = w.take(page)
	}
	w.ended = !more || err != nil
	switch {
	case err != nil:
		w.tell(nil, err)
	case w.ended:
		w.trim()
		w.answer.Keys = w.keys
		if w.answer.More {
			w.answer.Reached = w.keys[len(w.keys)-1]
		}
		w.tell(&w.answer, nil)
	}
	if w.turn.Add(1) == 2 && !w.ended {
		w.run()
	}
}

// tell answers, once.
func (w *partitionsWalk) tell(p *Partitions, err error) {
	if done := w.done; done != nil {
		w.done = nil
		done(p, err)
	}
}

// take adds the keys of a page; more when there are further pages.
func (w *partitionsWalk) take(page []byte) (more bool, err error) {
	var r row.PageReader
	var last []byte
	lastLive := false
	r.Reset(page)
	for r.NextPartition() {
		w.answer.Scanned++
		last, lastLive = r.Key.Bytes, false
		var x row.Row
		for r.NextRow(&x) {
			lastLive = lastLive || x.Live(w.req.Now)
		}
		if lastLive {
			w.add(last)
		}
		w.cmd.Range.After = &row.PartitionKey{Token: r.Key.Token, Bytes: slices.Clone(r.Key.Bytes)}
	}
	if err := r.Err(); err != nil {
		return false, err
	}
	if r.More() && last != nil && !lastLive {
		w.add(last) // the page ended within it: what follows may live
	}
	return r.More() && last != nil, nil
}

// add takes a key when it is among the first ones.
func (w *partitionsWalk) add(key []byte) {
	if !w.req.Span.contains(key) {
		return
	}
	if w.bound != nil && compareKeys(key, w.bound, w.req.Reversed) >= 0 {
		w.answer.More = true
		return
	}
	w.keys = append(w.keys, slices.Clone(key))
	w.bytes += len(key)
	if len(w.keys) >= 2*w.limit || w.bytes >= 2*w.c.limits.ResultBytes {
		w.trim()
	}
}

// trim sorts the keys and drops those that are too many.
func (w *partitionsWalk) trim() {
	slices.SortFunc(w.keys, func(a, b []byte) int { return compareKeys(a, b, w.req.Reversed) })
	w.keys = slices.CompactFunc(w.keys, bytes.Equal)
	w.bytes = 0
	for i, key := range w.keys {
		if i == w.limit || i > 0 && w.bytes+len(key) > w.c.limits.ResultBytes {
			w.bound, w.answer.More = key, true
			clear(w.keys[i:])
			w.keys = w.keys[:i]
			return
		}
		w.bytes += len(key)
	}
}

// compareKeys compares in the order of a walk.
func compareKeys(a, b []byte, reversed bool) int {
	if reversed {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}
