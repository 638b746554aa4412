package view

import (
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
)

// scanSource reads the whole base table. It serves a view until its index is built. Its cost is the size of the base
// table, for each page of the view.
type scanSource struct {
	op     *readOp
	cursor scan.Cursor
	page   []byte // the memory of answers
}

// newScanSource returns a source that begins at the first partition of the base table: its order is not the order of
// the view.
func newScanSource(op *readOp) *scanSource {
	s := &scanSource{op: op}
	s.cursor.Command = row.ReadCommand{Table: op.base.StorageID, Slices: []row.Slice{row.AllRows()},
		Now:    op.req.Command.Now,
		Limits: row.Limits{Rows: uint32(op.r.o.Limits.BasePage)}, Cancel: op.req.Cancel}
	// A row of the view may come from any partition.
	s.cursor.Tokens = ring.FullRange()
	return s
}

// send implements source. It requests one page of the base table.
func (s *scanSource) send(left time.Duration, blocks bool) bool {
	// Each request has its own command, which replicas may retain.
	cmd := new(row.ReadCommand)
	if !s.cursor.Next(cmd) {
		return false
	}
	op := s.op
	op.r.Coordinator.Read(&coordinator.ReadRequest{Command: cmd, Consistency: op.level, Timeout: left,
		Trace:  op.req.Trace,
		Cancel: op.req.Cancel, Blocks: blocks}, func(page []byte, err error) {
		// The page is copied, because it is valid only until done returns. The previous answer was taken, so its
		// memory is free.
		s.page = append(s.page[:0], page...)
		op.answered(answer{page: s.page, err: err})
	})
	return true
}

// take implements source. All pages of the base table are read: a later one may have earlier rows of the view.
func (s *scanSource) take(a *answer) (more bool, err error) {
	if a.err != nil {
		return false, a.err
	}
	s.cursor.Page(a.page)
	for s.cursor.NextPartition() {
		for s.cursor.NextRow(&s.op.x) {
			s.op.offer(s.cursor.Reader.Key, &s.op.x)
		}
	}
	return true, s.cursor.EndPage()
}
