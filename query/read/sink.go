package read

import (
	"cqld/query/rowview"
	"cqld/request"
)

// sink builds the result of a SELECT from the rows that satisfy WHERE. Each kind of result has its own
// implementation: plain rows, rows by group, groups in memory, sorted rows, and rows with the best scores. A sink
// belongs to its reading and is used by one goroutine. add must clone what it keeps: v and the page are reused.
type sink interface {
	// add handles a row of the scan and returns where the scan continues. The scan does not call it after a verdict
	// that stops the scan.
	add(run *reading, v *rowview.View) (request.Verdict, error)
	// end appends the remaining rows to the result after the last row of the page. It is called exactly once, even if
	// no row was found, but not after an error.
	end(run *reading) error
	// bytes returns the memory that the sink keeps outside of the result.
	bytes(run *reading) int
}

// sinkOf returns the sink of a plan. The order matters: the sink of groups also sorts them, with the sink of sorted
// rows. The sinks are fields of run, so that the interface needs no allocation.
func (run *reading) sinkOf(plan *Plan) sink {
	switch {
	case plan.hashed != nil:
		return &run.hashed
	// The SELECT has aggregates, with or without GROUP BY.
	case plan.aggregates():
		return &run.grouped
	case plan.order != nil:
		return &run.ordered
	case plan.near != nil:
		return &run.near
	}
	return plainRows{}
}

// plainRows appends each row to the result. It keeps no state, because add encodes the row into the result.
type plainRows struct{}

func (plainRows) add(run *reading, v *rowview.View) (request.Verdict, error) {
	if run.skip > 0 { // OFFSET
		run.skip--
		return run.afterRow(), nil
	}
	// Count the row before its values are appended; an error discards the whole page.
	run.count++
	if err := run.appendRow(v); err != nil {
		return 0, err
	}
	if uint32(run.count) >= run.pageLimit {
		return request.StopAfter, nil
	}
	if full, err := run.full(); full || err != nil {
		return request.StopAfter, err
	}
	return run.afterRow(), nil
}

func (plainRows) end(*reading) error { return nil }

func (plainRows) bytes(*reading) int { return 0 }
