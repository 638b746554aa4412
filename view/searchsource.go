package view

import (
	"bytes"
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/search"
)

// searchSource finds the rows by the index of the view, in the order of the view. Its cost is about the number of rows
// in the page.
type searchSource struct {
	op      *readOp
	req     search.Request // the next one, without its timeout and limit
	granted int            // bytes that the searches of the read have reserved
}

// newSearchSource returns a source that begins at the first term of the command.
func newSearchSource(op *readOp) *searchSource {
	cmd := op.req.Command
	return &searchSource{op: op, req: search.Request{Table: op.base, Index: op.view.StorageID, Terms: places(cmd),
		Tokens:   ring.FullRange(),
		Reversed: cmd.Reversed, Order: search.ByTerm, Consistency: op.level, Now: cmd.Now, Trace: op.req.Trace,
		Cancel: op.req.Cancel}}
}

// send implements source. It requests as many rows as the page of the view can take.
func (s *searchSource) send(left time.Duration, _ bool) bool {
	// The command selects no term, so there is nothing to search.
	if len(s.req.Terms) == 0 {
		return false
	}
	req := s.req
	req.Timeout, req.Limit, req.Grow = left, s.op.kept.limit, s.grow()
	if !s.op.filter.Active() && s.op.kept.perPartition == 0 {
		// Each found row is added to the page, so the limit is the number of missing rows.
		req.Limit = s.op.kept.limit - len(s.op.kept.rows)
	}
	s.op.r.o.Searcher.Search(&req, func(result *search.Result, err error) {
		// A result belongs to its request, and is not reused.
		s.op.answered(answer{result: result, err: err})
	})
	return true
}

// grow returns the Grow of the next search; nil means no bound. The search uses again what the searches before it have
// reserved, because their candidates and results are not needed any longer.
func (s *searchSource) grow() coordinator.Grow {
	reserve := s.op.req.Grow
	if reserve == nil {
		return nil
	}
	used := 0
	return func(n int) bool {
		if more := used + n - s.granted; more > 0 {
			if !reserve(more) {
				return false
			}
			s.granted += more
		}
		used += n
		return true
	}
}

// take implements source. If the index is not built, a scan of the base table replaces the search.
func (s *searchSource) take(a *answer) (more bool, err error) {
	op := s.op
	if errors.As(a.err, new(*search.NotBuilt)) {
		// A scan reads all rows, so the page begins again.
		op.kept = newKept(op.req.Command, op.r.o.Limits)
		op.source = newScanSource(op)
		return true, nil
	}
	if a.err != nil {
		return false, a.err
	}
	var r row.PageReader
	r.Reset(a.result.Page)
	for r.NextPartition() {
		for r.NextRow(&op.x) {
			op.offer(r.Key, &op.x)
		}
	}
	switch {
	case r.Err() != nil:
		return false, r.Err()
	// No row follows, or the page has omitted one.
	case !a.result.More || op.kept.more:
		return false, nil
	case len(op.kept.rows) >= op.kept.limit:
		op.kept.more = true
		return false, nil
	// The filter has removed so many rows that the client would wait too long. The page ends at last, from which the
	// next page continues.
	case op.examined >= op.r.o.Limits.Examined && op.last.Key.Bytes != nil:
		op.stopped = true
		return false, nil
	}
	invariant.Check(!bytes.Equal(a.result.Next, s.req.From), "view: a search made no progress") // 5
	s.req.From = a.result.Next
	return true, nil
}
