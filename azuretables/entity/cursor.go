package entity

import (
	"math"

	"cqld/listing"
	"cqld/row"
)

// cursor returns the partitions that a query reads, in order: those that a partitionRange names, and the existing
// ones in its interval.
type cursor struct {
	r       *run
	list    []partitionRange
	from    Position
	started bool // list[0] has been started
	slices  []row.Slice
	// single is true if the query names one partition.
	single bool

	keys   [][]byte // existing keys in list[0]
	held   int64    // memory of the request for keys
	more   bool     // further keys may exist, from resume on
	resume []byte
	listed bool // keys were listed at least once
	paused bool // the page's time ended before further keys were listed
	limit  int
	// dead is true once a listed partition contained no live rows. From then on, listings omit such partitions.
	dead bool
}

func newCursor(r *run, list []partitionRange) *cursor {
	f := &cursor{r: r, list: list}
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
	if len(f.list) == 1 {
		_, f.single = f.list[0].partitions.one()
	}
	f.limit = keysMax / 4
	if r.left != math.MaxInt {
		f.limit = min(max(r.left/8, 4), keysMax/4)
	}
	return f
}

// next returns the next partition's key, the slices of rows to read in it, and the RowKey at which they start.
func (f *cursor) next() (key string, rows []row.Slice, from string, ok bool, err error) {
	for len(f.list) > 0 {
		s := &f.list[0]
		if !f.started {
			f.started, f.slices = true, f.r.p.slices(s.rows)
			f.resume, f.more = []byte(s.partitions.From), true
			f.keys = f.keys[:0]
		}
		if key, ok := s.partitions.one(); ok {
			f.pop()
			if len(key) > keyBytesMax {
				continue // no such key can exist
			}
			if rows, from := f.of(s, key); len(rows) > 0 {
				return key, rows, from, true, nil
			}
			continue
		}
		if len(f.keys) == 0 && f.more {
			if f.paused = f.listed && f.r.late(); f.paused {
				return "", nil, "", false, nil
			}
			if err := f.fetch(); err != nil {
				return "", nil, "", false, err
			}
		}
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

func (f *cursor) pop() { f.list, f.started = f.list[1:], false }

// of returns the slices to read in a partition: those of s, restricted to those after the query's start position.
func (f *cursor) of(s *partitionRange, key string) (rows []row.Slice, from string) {
	if f.r.q.From == nil || key != f.from.PartitionKey {
		return f.slices, ""
	}
	rest := interval{From: f.from.RowKey, Endless: true}
	if f.r.q.Order == Descending {
		if f.from.RowKey == "" {
			return f.slices, ""
		}
		rest = interval{To: f.from.RowKey}
	}
	var left []interval
	for _, i := range s.rows {
		if i = i.intersect(rest); !i.empty() {
			left = append(left, i)
		}
	}
	return f.r.p.slices(left), f.from.RowKey
}

// fetch lists existing partition keys. If that takes too long, it may return no keys although more exist.
func (f *cursor) fetch() error {
	s := &f.list[0]
	f.listed = true
	f.limit = max(1, min(f.limit, f.r.Wanted()-f.r.scan.InFlight()))
	req := &listing.Request{Table: f.r.p.table, Span: listing.Span{From: f.resume}, Limit: f.limit,
		Consistency: f.r.request.Consistency, Timeout: f.r.timeout(), Patience: f.r.patience(), Now: f.r.now,
		Dead: !f.dead, Cancel: f.r.cancel}
	if !s.partitions.Endless {
		req.Span.To = []byte(s.partitions.To)
	}
	f.keys = nil
	f.r.request.Memory.Shrink(f.held)
	before := f.r.request.Memory.Bytes()
	result, err := f.r.s.o.Executor.List(f.r.request, req)
	if err != nil {
		f.held = 0
		return known(err)
	}
	f.held = f.r.request.Memory.Bytes() - before
	f.keys, f.more = result.Keys, result.More
	if f.more {
		f.resume = append(append(make([]byte, 0, len(result.Reached)+1), result.Reached...), 0)
	}
	f.limit = min(4*f.limit, keysMax)
	return nil
}
