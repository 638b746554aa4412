package view

import (
	"bytes"
	"errors"
	"time"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/search"
)

// searchSource finds the rows by the index of the view, in the order of the view.
type searchSource struct {
	op     *readOp
	req    search.Request
	result *search.Result
	err    error
}

func newSearchSource(op *readOp) *searchSource {
	cmd := op.req.Command
	return &searchSource{op: op, req: search.Request{Table: op.base, Index: op.view.StorageID, Terms: places(cmd),
		Tokens:   ring.FullRange(),
		Reversed: cmd.Reversed, Order: search.ByTerm, Consistency: op.level, Now: cmd.Now, Trace: op.req.Trace,
		Cancel: op.req.Cancel}}
}

func (s *searchSource) send(left time.Duration, _ bool) bool {
	if len(s.req.Terms) == 0 {
		return false
	}
	req := s.req
	req.Timeout, req.Limit = left, s.op.kept.limit
	if !s.op.filter.Active() && s.op.kept.perPartition == 0 {
		req.Limit = s.op.kept.limit - len(s.op.kept.rows)
	}
	s.op.r.o.Searcher.Search(&req, func(result *search.Result, err error) {
		s.op.answered(func() { s.result, s.err = result, err })
	})
	return true
}

func (s *searchSource) take() (more bool, err error) {
	op := s.op
	if errors.As(s.err, new(*search.NotBuilt)) {
		op.kept = newKept(op.req.Command, op.r.o.Limits)
		op.source = newScanSource(op)
		return true, nil
	}
	if s.err != nil {
		return false, s.err
	}
	var r row.PageReader
	r.Reset(s.result.Page)
	for r.NextPartition() {
		for r.NextRow(&op.x) {
			op.offer(r.Key, &op.x)
		}
	}
	switch {
	case r.Err() != nil:
		return false, r.Err()
	case !s.result.More || op.kept.more:
		return false, nil
	case len(op.kept.rows) >= op.kept.limit:
		op.kept.more = true
		return false, nil
	case op.examined >= op.r.o.Limits.Examined && op.last.Key.Bytes != nil:
		op.stopped = true
		return false, nil
	}
	invariant.Check(!bytes.Equal(s.result.Next, s.req.From), "view: a search made no progress")
	s.req.From = s.result.Next
	return true, nil
}
