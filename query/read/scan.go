package read

import (
	"time"

	"cqld/coordinator"
	"cqld/query/execution"
	"cqld/query/restriction"
	"cqld/query/term"
	"cqld/request"
	"cqld/row"
)

// read executes the SELECT's reads, all of them through one cursor, and passes the rows that satisfy WHERE to the sink.
func (run *reading) read(r *request.Request) error {
	if run.plan.searchesVectors() {
		return run.near.read(run, r)
	}
	s := &run.scan
	s.Executor, s.Request, s.Source, s.Consumer, s.Row = run.reader.o.Executor, r, run, run, &run.view.Row
	s.Runs = true
	if run.reader.o.IsVirtual(run.plan.table) {
		s.Local = func(cmd *row.ReadCommand) ([]byte, error) {
			if err := execution.CheckLocalLevel(run.plan.table, r.Consistency); err != nil {
				return nil, err
			}
			return run.reader.virtualPage(run.plan.table, cmd, r.Principal)
		}
	}
	if shape := run.plan.fragments; shape != nil {
		s.Local = func(cmd *row.ReadCommand) ([]byte, error) { return shape.Page(cmd, run.reader.o.Stored) }
	}
	if run.plan.where.Index() != nil {
		s.Local, s.Held = func(cmd *row.ReadCommand) ([]byte, error) { return run.search(r, cmd) }, true
	}
	s.FirstBytes, s.PageBytes = run.plan.firstBytes(), run.reader.o.PageBytes
	run.view.Reset(run.plan.table, run.cursor.Command.Now)
	return s.Run()
}

// Next implements request.Source.
func (run *reading) Next() (*request.Read, error) {
	if run.begun {
		return nil, nil
	}
	run.begun = true
	return &run.cursor, nil
}

// Prepare implements request.Source.
func (run *reading) Prepare(req *coordinator.ReadRequest) {
	t := &run.timeouts
	req.Timeout, req.Contention = t.Range, t.CAS
	if req.Command.SinglePartition() {
		req.Timeout = t.Read
	}
	if run.deadline > 0 { // USING TIMEOUT applies to all commands together
		req.Timeout = max(run.deadline-run.reader.o.Clock.Monotonic(), time.Nanosecond)
		req.Contention = req.Timeout
	}
}

// Begin implements request.Source.
func (run *reading) Begin(*request.Read) bool { return true }

// Continue implements request.Source.
func (run *reading) Continue(r *request.Read) bool {
	if run.grow {
		r.Command.Limits.Rows = min(2*r.Command.Limits.Rows, batchMax)
	}
	return true
}

// Done implements request.Source.
func (run *reading) Done(*request.Read) {}

// Wanted implements request.Source.
func (run *reading) Wanted() int { return 1 }

// Partition implements request.Consumer.
func (run *reading) Partition(r *request.Read) {
	v := &run.view
	v.Header = r.Reader.Header
	v.Partition(r.Reader.Key)
	run.fixed = v.Marked()
}

// Live implements request.Consumer.
func (run *reading) Live(x *row.Row) bool { return run.view.Live(x) }

// Row implements request.Consumer.
func (run *reading) Row(r *request.Read, x *row.Row) (request.Verdict, error) {
	v := &run.view
	if err := run.reserveRow(r); err != nil {
		return 0, err
	}
	if x == nil {
		v.Next(run.fixed, nil)
	} else {
		v.Next(run.fixed, term.NotNil(x.Clustering))
		v.Mark(x)
	}
	if len(run.filters) > 0 && !restriction.Matches(run.filters, v) {
		return request.SkipRow, nil
	}
	return run.sink.add(run, v)
}
