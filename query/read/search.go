package read

import (
	"errors"

	"cqld/query/invalid"
	"cqld/query/restriction"
	"cqld/request"
	"cqld/row"
	"cqld/schema"
	"cqld/search"
)

// search answers a command of a SELECT by its index: the rows of the command that match a term of the SELECT, and
// possibly others. Memory for the page is reserved. It is the Local function of the scan: the page that it returns is
// decoded like the page of a replica read.
func (run *reading) search(r *request.Request, cmd *row.ReadCommand) ([]byte, error) {
	req := &search.Request{
		Table: run.plan.table, Index: run.index.Index.ID, Terms: run.index.Terms, Union: run.union(),
		Slices: cmd.Slices, StaticCounts: cmd.StaticCounts,
		Filter: cmd.Filter, Reversed: cmd.Reversed, Order: search.ByToken, Limit: int(cmd.Limits.Rows),
		Consistency: r.Consistency,
		Now:         cmd.Now, Cancel: cmd.Cancel,
	}
	timeout := run.timeouts.Range
	if cmd.SinglePartition() {
		// Search only the entries of this partition.
		req.Key, timeout = cmd.Key, run.timeouts.Read
	} else if req.Tokens = cmd.Range.Tokens; cmd.Range.After != nil {
		req.From = search.AfterPartition(*cmd.Range.After)
	}
	if r.Trace != nil && r.Trace.Detailed() {
		r.Trace.Add(run.reader.o.View.Self(), "Searching with index "+run.index.Index.Name)
	}
	// Each iteration is one step of the search. It ends when it has a page that the scan can use.
	for {
		req.Timeout = run.remaining(timeout)
		result, err := run.reader.o.Executor.Search(r, req)
		if err != nil {
			return nil, run.searchError(err)
		}
		if !result.More {
			// The search has reached its end.
			return result.Page, nil
		}
		// The search stopped within the command's limits. The page gets an end marker, so that the scan continues after
		// the position instead of from its last row.
		if end, ok := search.PositionOfScan(result.Next); ok {
			// The next command returns rows after the position.
			page := row.ContinueAfter(result.Page, end)
			return page, r.Memory.Resize(r.Context, int64(len(result.Page)), int64(len(page)))
		}
		if result.Rows > 0 {
			return result.Page, nil
		}
		// The page has no rows, because this step only found entries of deleted rows.
		//
		// Only the search's own page is returned; the scan has not seen it.
		r.Memory.Shrink(int64(len(result.Page)))
		req.From = result.Next
	}
}

// union returns the other branches of the chosen index. A union answers an OR of conditions on several indexes: a row
// needs a term of one branch.
func (run *reading) union() (out []search.Branch) {
	for _, b := range run.index.Union {
		out = append(out, search.Branch{Index: b.Index.ID, Terms: b.Terms})
	}
	return out
}

// entryCounter returns a function that counts entries on this node, or nil. If WHERE selects one partition, it counts
// only the entries of that partition. The number is only an estimate, because other nodes have other entries.
func (run *reading) entryCounter() restriction.EntryCounter {
	if run.reader.o.IndexEntries == nil {
		return nil
	}
	return func(ix *schema.Index, terms []row.Slice, most int) (n int, ok bool) {
		req := &search.Request{Table: run.plan.table, Index: ix.ID, Terms: terms, Tokens: run.cursor.Tokens}
		// The counts of whole indexes say little about one partition.
		if len(run.cursor.Keys) == 1 {
			req.Key = run.cursor.Keys[0]
		}
		return run.reader.o.IndexEntries(req, most)
	}
}

// searchError converts the error for an unknown index, which was dropped in the meantime, to an invalid request. It
// returns other errors, including a failed index build, unchanged.
func (run *reading) searchError(err error) error {
	var notBuilt *search.NotBuilt
	if errors.As(err, &notBuilt) && notBuilt.Failure == nil {
		return invalid.Errorf("The secondary index '%s' is not yet available", run.index.Index.Name)
	}
	return err
}
