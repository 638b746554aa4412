package view

import (
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
)

// scanSource reads the whole base table. It serves a view until its index is built.
type scanSource struct {
	op     *readOp
	cursor scan.Cursor
	page   []byte
	err    error
}

func newScanSource(op *readOp) *scanSource {
	s := &scanSource{op: op}
	s.cursor.Command = row.ReadCommand{Table: op.base.StorageID, Slices: []row.Slice{row.AllRows()},
		Now:    op.req.Command.Now,
		Limits: row.Limits{Rows: uint32(op.r.o.Limits.BasePage)}, Cancel: op.req.Cancel}
	s.cursor.Tokens = ring.FullRange()
	return s
}

func (s *scanSource) send(left time.Duration, blocks bool) bool {
	cmd := new(row.ReadCommand)
	if !s.cursor.Next(cmd) {
		return false
	}
	op := s.op
	op.r.Coordinator.Read(&coordinator.ReadRequest{Command: cmd, Consistency: op.level, Timeout: left,
		Trace:  op.req.Trace,
		Cancel: op.req.Cancel, Blocks: blocks}, func(page []byte, err error) {
		op.answered(func() { s.page, s.err = append(s.page[:0], page...), err })
	})
	return true
}

func (s *scanSource) take() (more bool, err error) {
	if s.err != nil {
		return false, s.err
	}
	s.cursor.Page(s.page)
	for s.cursor.NextPartition() {
		for s.cursor.NextRow(&s.op.x) {
			s.op.offer(s.cursor.Reader.Key, &s.op.x)
		}
	}
	return true, s.cursor.EndPage()
}
