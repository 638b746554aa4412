package repair

import (
	"errors"
	"sync/atomic"

	"cqld/internal/invariant"
)

// counts contains the statistics of jobs since the start of the process.
//
// running is the only one that falls. The others are added when a job ends, so a job under way is not included.
type counts struct {
	completed, failed, cancelled atomic.Int64
	running, restricted          atomic.Int64
	ranges, rows, bytes          atomic.Int64
}

// Stats contains the statistics of a Repairer since the start of the process.
type Stats struct {
	Running                      int64 // jobs under way
	Completed, Failed, Cancelled int64 // jobs that have ended; a job is a range of a table
	Restricted                   int64 // completed jobs that repaired only some replicas
	Ranges                       int64 // with one replica set each, compared on all replicas in the scope
	Rows                         int64 // sent to replicas that lacked them
	Bytes                        int64 // scanned by replicas
}

// Stats returns the present statistics.
func (r *Repairer) Stats() Stats {
	c := &r.counts
	return Stats{Running: c.running.Load(), Completed: c.completed.Load(), Failed: c.failed.Load(),
		Cancelled:  c.cancelled.Load(),
		Restricted: c.restricted.Load(), Ranges: c.ranges.Load(), Rows: c.rows.Load(), Bytes: c.bytes.Load()}
}

// ended counts a job that has ended.
func (c *counts) ended(report *Report, err error) {
	switch {
	case err == nil:
		c.completed.Add(1)
		if report.Job.Scope.Restricted() {
			c.restricted.Add(1)
		}
	// Operators cancel jobs, and Auto cancels at the end of the process: neither is a failure.
	case errors.Is(err, ErrCancelled):
		c.cancelled.Add(1)
	default:
		c.failed.Add(1)
	}
	invariant.Check(c.running.Add(-1) >= 0, "repair: more jobs have ended than begun")
	c.ranges.Add(int64(report.RangesDone))
	c.rows.Add(report.Rows)
	c.bytes.Add(report.Bytes)
}
