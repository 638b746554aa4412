package listing

import (
	"bytes"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
)

// scanOp lists the partitions of a table without a partition index: it reads one row of each partition, in the order of
// the ring, and keeps the first keys of the span.
type scanOp struct {
	l        *Lister
	req      *Request
	limit    int
	done     func(*Result, error) // nil once called
	deadline time.Duration        // monotonic
	cursor   scan.Cursor
	keys     [][]byte
	bytes    int
	memory   coordinator.Budget
	size     int    // of a page; 0 means no bound
	bound    []byte // keys at or after it are not in the result; nil means that all may be
	result   Result

	// arrived counts the two events of a round: the page has arrived, and the call that requested it has returned. The
	// later event starts the next round, so calls do not nest when pages arrive synchronously.
	arrived atomic.Int32
	ended   bool
}

// scan starts a scanOp.
func (l *Lister) scan(req *Request, limit int, done func(*Result, error)) {
	op := &scanOp{l: l, req: req, limit: limit, done: done, deadline: l.clock.Monotonic() + req.Timeout}
	// Without a bound of memory, pages are as large as ScanRows allows.
	if op.memory.Grow = req.Grow; req.Grow != nil {
		op.size = scanBytes
	}
	// One row of each partition shows that it exists. Limits.Rows then bounds the partitions of a page.
	op.cursor = scan.Cursor{Tokens: ring.FullRange(), Command: row.ReadCommand{
		Table: req.Table.StorageID, Slices: []row.Slice{row.AllRows()},
		Limits: row.Limits{Rows: l.limits.ScanRows, PerPartition: 1}, Now: req.Now, Cancel: req.Cancel,
	}}
	op.run()
}

// run reads page after page.
func (op *scanOp) run() {
	for {
		op.arrived.Store(0)
		if err := op.hold(); err != nil {
			op.finish(nil, err)
			return
		}
		cmd := new(row.ReadCommand) // replicas may still use the previous one
		op.cursor.Next(cmd)
		cmd.Limits.Bytes = uint32(min(op.size, math.MaxUint32))
		op.l.c.Read(&coordinator.ReadRequest{
			Command: cmd, Consistency: op.req.Consistency, Timeout: op.l.c.Remaining(op.deadline), Trace: op.req.Trace,
			Cancel: op.req.Cancel,
			Memory: (scanCopies - 1) * op.size,
		}, op.page)
		// Either the page has not arrived yet, and its event continues the scan, or the page has ended the listing.
		if op.arrived.Add(1) == 1 || op.ended {
			return
		}
	}
}

// page handles the arrival of a page, or its failure.
func (op *scanOp) page(page []byte, err error) {
	defer op.l.guard.Recover("coordinator partitions", func(err error) {
		op.ended = true
		op.finish(nil, err)
	})
	more := op.enlarge(err)
	switch {
	// The page was too small, and is read again with more memory.
	case more:
		err = nil
	case err == nil:
		more, err = op.addPage(page)
	}
	op.ended = !more || err != nil
	switch {
	case err != nil:
		op.finish(nil, err)
	case op.ended:
		// Keys are in the order of tokens until here.
		op.trim()
		op.result.Keys = op.keys
		if op.result.More {
			// More is set only if keys were dropped, so at least one is left.
			op.result.Reached = op.keys[len(op.keys)-1]
		}
		op.l.counts.keys.Add(uint64(len(op.keys)))
		op.finish(&op.result, nil)
	}
	// run has returned from its call, so this event starts the next round.
	if op.arrived.Add(1) == 2 && !op.ended {
		op.run()
	}
}

// finish calls done, once.
func (op *scanOp) finish(r *Result, err error) {
	if done := op.done; done != nil {
		op.done = nil
		done(r, err)
	}
}

// addPage adds the keys of a page and reports whether there are further pages.
func (op *scanOp) addPage(page []byte) (more bool, err error) {
	c := &op.cursor
	var x row.Row
	for c.Page(page); c.NextPartition(); c.EndPartition() {
		op.result.Scanned++
		op.l.counts.scanned.Add(1)
		// A page also contains rows that are deleted.
		live := false
		for c.NextRow(&x) {
			live = live || x.Live(op.req.Now)
		}
		if live || c.Continues() { // the rest of a partition in which the page ended may be live
			op.add(c.Reader.Key.Bytes)
		}
	}
	// A page that cannot be decoded fails the listing: its missing keys would look like deleted ones.
	if err := c.EndPage(); err != nil {
		return false, err
	}
	return c.More(), nil
}

// add keeps a key that may be in the result.
func (op *scanOp) add(key []byte) {
	if !op.req.Span.contains(key) {
		return
	}
	// There are enough smaller keys already.
	if op.bound != nil && compareKeys(key, op.bound, op.req.Reversed) >= 0 {
		op.result.More = true
		return
	}
	op.keys = append(op.keys, slices.Clone(key))
	op.bytes += len(key)
	// Sorting at twice the limit keeps the cost of a key constant on average.
	if len(op.keys) >= 2*op.limit || op.bytes >= 2*op.l.limits.Bytes {
		op.trim()
	}
}

// trim sorts the keys and drops those beyond the limits.
func (op *scanOp) trim() {
	slices.SortFunc(op.keys, func(a, b []byte) int { return compareKeys(a, b, op.req.Reversed) })
	op.keys = slices.CompactFunc(op.keys, bytes.Equal)
	op.bytes = 0
	for i, key := range op.keys {
		if i == op.limit || i > 0 && op.bytes+len(key) > op.l.limits.Bytes {
			// Later keys are compared with the bound before they are copied.
			op.bound, op.result.More = key, true
			// The keys that are dropped must not be kept by the slice.
			clear(op.keys[i:])
			op.keys = op.keys[:i]
			return
		}
		op.bytes += len(key)
	}
}
