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

// read executes the SELECT's reads, all of them through one cursor, and passes the rows that satisfy WHERE to the
// sink. On return without an error, the cursor is positioned after the last row of the page.
func (run *reading) read(r *request.Request) error {
	if run.plan.searchesVectors() {
		return run.near.read(run, r)
	}
	s := &run.scan
	s.Executor, s.Request, s.Source, s.Consumer, s.Row = run.reader.o.Executor, r, run, run, &run.view.Row
	// Rows are decoded in runs (row.DecodeRuns).
	s.Runs = true
	if run.reader.o.IsVirtual(run.plan.table) {
		s.Local = func(cmd *row.ReadCommand) ([]byte, error) {
			if err := execution.CheckLocalLevel(run.plan.table, r.Consistency); err != nil {
				return nil, err
			}
			// This node generates the rows that the client may see.
			return run.reader.virtualPage(run.plan.table, cmd, r.Principal)
		}
	}
	if shape := run.plan.fragments; shape != nil {
		s.Local = func(cmd *row.ReadCommand) ([]byte, error) { return shape.Page(cmd, run.reader.o.Stored) }
	}
	if run.plan.where.Index() != nil {
		// Index searches replace the reads of the scan. Held means that the memory of their pages is already
		// reserved.
		s.Local, s.Held = func(cmd *row.ReadCommand) ([]byte, error) { return run.search(r, cmd) }, true
	}
	// A view is searched in its base table.
	s.Grows = run.plan.table.View != nil
	s.FirstBytes, s.PageBytes = run.plan.firstBytes(), run.reader.o.PageBytes
	run.view.Reset(run.plan.table, run.cursor.Command.Now)
	// Run returns when the source has no Read left, a verdict stops the scan, or a read fails. It calls the methods
	// below in this goroutine.
	return s.Run()
}

// Next implements request.Source. It returns the cursor once, and then nil, which ends the scan.
func (run *reading) Next() (*request.Read, error) {
	if run.begun {
		return nil, nil
	}
	// The whole SELECT uses one cursor.
	run.begun = true
	return &run.cursor, nil
}

// Prepare implements request.Source. It is called before each command, so that the rest of the deadline is current.
func (run *reading) Prepare(req *coordinator.ReadRequest) {
	t := &run.timeouts
	req.Timeout, req.Contention = run.remaining(t.Range), run.remaining(t.CAS)
	if req.Command.SinglePartition() {
		// Single partitions have read_request_timeout instead of range_request_timeout.
		req.Timeout = run.remaining(t.Read)
	}
}

// remaining returns the timeout of the next command, or of the next step of a search: the configured one, or what is
// left of USING TIMEOUT, which bounds all of them together.
func (run *reading) remaining(configured time.Duration) time.Duration {
	if run.deadline == 0 {
		return configured
	}
	// A deadline that has passed gives the least timeout: zero would mean none.
	return max(run.deadline-run.reader.o.Clock.Monotonic(), time.Nanosecond)
}

// Begin implements request.Source. It always accepts the only Read.
func (run *reading) Begin(*request.Read) bool { return true }

// Continue implements request.Source. Doubling bounds the number of commands by the logarithm of the rows that are
// read, up to growTo rows each.
func (run *reading) Continue(r *request.Read) bool {
	if run.growTo > 0 {
		// Few rows qualified: they failed the filters, had outdated index entries, or only had cells of dropped
		// columns.
		r.Command.Limits.Rows = min(2*r.Command.Limits.Rows, run.growTo)
	}
	return true
}

// Done implements request.Source. The scan keeps nothing for a finished Read.
func (run *reading) Done(*request.Read) {}

// Wanted implements request.Source. The cursor is the only Read, so none is started in advance.
func (run *reading) Wanted() int { return 1 }

// Partition implements request.Consumer. Columns marked here, including static ones, apply to all rows of the
// partition; Row keeps them and marks its own.
func (run *reading) Partition(r *request.Read) {
	v := &run.view
	v.Header = r.Reader.Header
	v.Partition(r.Reader.Key)
	run.fixed = v.Marked()
}

// Live implements request.Consumer. The scan does not pass deleted and expired rows to Row.
func (run *reading) Live(x *row.Row) bool { return run.view.Live(x) }

// Row implements request.Consumer. x is valid until Row returns, so sinks that keep a row clone it.
func (run *reading) Row(r *request.Read, x *row.Row) (request.Verdict, error) {
	v := &run.view
	if err := run.reserveRow(r); err != nil {
		return 0, err
	}
	if x == nil {
		// The partition has only static columns.
		v.Next(run.fixed, nil)
	} else {
		v.Next(run.fixed, term.NotNil(x.Clustering))
		v.Mark(x)
	}
	// Replicas may have evaluated some filters already. Evaluate all of them again, because only the coordinator has
	// the reconciled row.
	if len(run.filters) > 0 && !restriction.Matches(run.filters, v) {
		return request.SkipRow, nil
	}
	return run.sink.add(run, v)
}
