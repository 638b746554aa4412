package entity

import (
	"math"

	"cqld/listing"
	"cqld/row"
)

// feed gives the partitions that a query reads, in order: those that a stretch names, and those that there
// are in a stretch's range.
type feed struct {
	r       *run
	list    []stretch
	from    Position
	started bool // list[0] was begun
	slices  []row.Slice
	// single: the query names one partition.
	single bool

	keys   [][]byte // that are there in list[0]
	more   bool     // there may be further ones, from behind on
	behind []byte
	asked  bool // for keys, once at least
	paused bool // the page's time was over before there were more keys
	limit  int
	// dead: a partition of the list had nothing to show. From then on only such are listed that have.
	dead bool
}

func newFeed(r *run, list []stretch) *feed {
	f := &feed{r: r, list: list}
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

// next is the next partition's key, the slices of rows wanted of it, and the RowKey at which they begin.
func (f *feed) next() (key string, rows []row.Slice, from string, ok bool, err error) {
	for len(f.list) > 0 {
		s := &f.list[0]
		if !f.started {
			f.started, f.slices = true, f.r.p.slices(s.rows)
			f.behind, f.more = []byte(s.partitions.From), true
			f.keys = f.keys[:0]
		}
		if key, ok := s.partitions.one(); ok {
			f.pop()
			if len(key) > keyBytesMax {
				continue // there is none
			}
			if rows, from := f.of(s, key); len(rows) > 0 {
				return key, rows, from, true, nil
			}
			continue
		}
		if len(f.keys) == 0 && f.more {
			if f.paused = f.asked && f.r.late(); f.paused {
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

func (f *feed) pop() { f.list, f.started = f.list[1:], false }

// of is the slices wanted of a partition: the stretch's, cut where the query begins.
func (f *feed) of(s *stretch, key string) (rows []row.Slice, from string) {
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

// fetch asks which partitions there are. When that takes too long, there may be none, and yet more.
func (f *feed) fetch() error {
	s := &f.list[0]
	f.asked = true
	f.limit = max(1, min(f.limit, f.r.partitionsLeft()-len(f.r.readings)))
	req := &listing.Request{Table: f.r.p.table, Span: listing.Span{From: f.behind}, Limit: f.limit,
		Consistency: f.r.request.Consistency, Timeout: f.r.timeout(), Patience: f.r.patience(), Now: f.r.now, Dead: !f.dead, Cancel: f.r.cancel}
	if !s.partitions.Endless {
		req.Span.To = []byte(s.partitions.To)
	}
	result, err := f.r.s.o.Executor.List(f.r.request, req)
	if err != nil {
		return known(err)
	}
	f.keys, f.more = result.Keys, result.More
	if f.more {
		f.behind = append(append(make([]byte, 0, len(result.Reached)+1), result.Reached...), 0)
	}
	f.limit = min(4*f.limit, keysMax)
	return nil
}
