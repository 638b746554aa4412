package entity

import (
	"math"

	"cqld/listing"
	"cqld/row"
)

// cursor returns the partitions that a query reads, in order: those that a partitionRange names, and the existing ones
// in its interval. Every partition is returned once. Partitions of an interval are found by listing their keys, a few
// at a time. It is used by the goroutine of the query.
type cursor struct {
	r       *run             // the query
	list    []partitionRange // what is left; list[0] is in progress
	from    Position         // where the query starts; zero if at the beginning
	started bool             // list[0] has been started
	slices  []row.Slice      // rows to read in the partitions of list[0]
	// single is true if the query names one partition.
	single bool

	keys   [][]byte // existing keys in list[0]
	held   int64    // memory of the request for keys
	more   bool     // further keys may exist, from resume on
	resume []byte   // position in list[0] at which the next listing starts
	listed bool     // keys were listed at least once
	paused bool     // the page's time ended before further keys were listed
	limit  int      // number of keys that the next listing requests
	// dead is true once a listed partition contained no live rows. From then on, listings omit such partitions.
	dead bool
}

// newCursor returns a cursor at the start of the query. The list is not modified.
func newCursor(r *run, list []partitionRange) *cursor {
	f := &cursor{r: r, list: list}
	// Partitions before the position are removed. The position's own partition stays, because it may be in progress.
	if r.q.From != nil {
		f.from = *r.q.From
		rest := interval{From: f.from.PartitionKey, Endless: true}
		f.list = nil
		for _, s := range list {
			s.partitions = s.partitions.intersect(rest)
			if !s.partitions.empty() {
				f.list = append(f.list, s)
			}
		}
	}
	// The result of a query of one partition is bounded, so its reading may be larger (run.limit).
	if len(f.list) == 1 {
		_, f.single = f.list[0].partitions.one()
	}
	// Four listings reach keysMax. A small page begins with fewer keys.
	f.limit = keysMax / 4
	if r.left != math.MaxInt {
		f.limit = min(max(r.left/8, 4), keysMax/4)
	}
	return f
}

// next returns the next partition's key, the slices of rows to read in it, and the RowKey at which they start. key and
// from are copies. ok is false at the end, and also if the page's time ended (paused). It may list keys, which waits
// for replicas.
func (f *cursor) next() (key string, rows []row.Slice, from string, ok bool, err error) {
	for len(f.list) > 0 {
		s := &f.list[0]
		if !f.started {
			f.started, f.slices = true, f.r.p.slices(s.rows)
			f.resume, f.more = []byte(s.partitions.From), true
			f.keys = f.keys[:0]
		}
		// A single partition is read whether it exists or not: listing its key would cost a read as well.
		if key, ok := s.partitions.one(); ok {
			f.pop()
			if len(key) > keyBytesMax {
				continue // no such key can exist
			}
			// Slices may be empty if the position is after all rows of the partition.
			if rows, from := f.of(s, key); len(rows) > 0 {
				return key, rows, from, true, nil
			}
			continue
		}
		if len(f.keys) == 0 && f.more {
			// At least one listing is made per page, so a query makes progress even if its time is short.
			if f.paused = f.listed && f.r.late(); f.paused {
				return "", nil, "", false, nil
			}
			if err := f.fetch(); err != nil {
				return "", nil, "", false, err
			}
		}
		// A listing may end without keys and with more to come, if it took too long.
		if len(f.keys) == 0 {
			if !f.more {
				f.pop()
			}
			continue
		}
		key := string(f.keys[0])
		f.keys = f.keys[1:]
		if rows, from := f.of(s, key); len(rows) > 0 {
			return key, rows, from, true, nil
		}
	}
	return "", nil, "", false, nil
}

// pop ends the first partition range. Its keys have been used.
func (f *cursor) pop() { f.list, f.started = f.list[1:], false }

// of returns the slices to read in a partition: the slices of s after the query's start position. from is not empty if
// rows are left out; reading starts there. Slices are shared by all partitions of s that are read whole.
func (f *cursor) of(s *partitionRange, key string) (rows []row.Slice, from string) {
	// Every partition but the first of a page is read from its beginning.
	if f.r.q.From == nil || key != f.from.PartitionKey {
		return f.slices, ""
	}
	rest := interval{From: f.from.RowKey, Endless: true}
	// In a descending query, the position is exclusive, and an empty one is the start of the partition.
	if f.r.q.Order == Descending {
		if f.from.RowKey == "" {
			return f.slices, ""
		}
		rest = interval{To: f.from.RowKey}
	}
	// The intervals of a range are restricted one by one; the plan then orders them.
	var left []interval
	for _, i := range s.rows {
		if i = i.intersect(rest); !i.empty() {
			left = append(left, i)
		}
	}
	return f.r.p.slices(left), f.from.RowKey
}

// fetch lists existing partition keys. If that takes too long, it may return no keys although more exist. Its result is
// charged to the request's memory, and the previous result is released. The listing is at the consistency of the query.
func (f *cursor) fetch() error {
	s := &f.list[0]
	f.listed = true
	// No more keys than the page can still use: a listing costs a read of every key it returns.
	f.limit = max(1, min(f.limit, f.r.Wanted()-f.r.scan.InFlight()))
	req := &listing.Request{Table: f.r.p.table, Span: listing.Span{From: f.resume}, Limit: f.limit,
		Consistency: f.r.request.Consistency, Timeout: f.r.timeout(), Patience: f.r.patience(), Now: f.r.now,
		// A listing without dead partitions costs more for the replicas, and is worth it only if some have none.
		Dead: !f.dead, Cancel: f.r.cancel}
	if !s.partitions.Endless {
		req.Span.To = []byte(s.partitions.To)
	}
	f.keys = nil
	// The previous keys are no longer referenced.
	f.r.request.Memory.Shrink(f.held)
	before := f.r.request.Memory.Bytes()
	result, err := f.r.s.o.Executor.List(f.r.request, req)
	if err != nil {
		f.held = 0
		return known(err)
	}
	f.held = f.r.request.Memory.Bytes() - before
	f.keys, f.more = result.Keys, result.More
	// The next listing starts after the last key that was reached.
	if f.more {
		f.resume = append(append(make([]byte, 0, len(result.Reached)+1), result.Reached...), 0)
	}
	// Keys are cheap once the query needs many of them.
	f.limit = min(4*f.limit, keysMax)
	return nil
}
