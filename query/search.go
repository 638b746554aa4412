package query

import (
	"errors"

	"cqld/request"
	"cqld/row"
	"cqld/search"
)

// search answers a command of a SELECT by its index: the rows of the command that have a term of the SELECT, and possibly others.
func (run *selectRun) search(r *request.Request, cmd *row.ReadCommand) ([]byte, error) {
	req := &search.Request{
		Table: run.plan.table, Index: run.plan.where.Index().ID, Terms: run.terms, Slices: cmd.Slices, StaticCounts: cmd.StaticCounts,
		Filter: cmd.Filter, Reversed: cmd.Reversed, Order: search.ByToken, Limit: int(cmd.Limits.Rows), Consistency: r.Consistency,
		Now: cmd.Now, Timeout: run.p.o.Timeouts.Range, Cancel: cmd.Cancel,
	}
	if cmd.SinglePartition() {
		req.Key, req.Timeout = cmd.Key, run.p.o.Timeouts.Read
	} else if req.Tokens = cmd.Range.Tokens; cmd.Range.After != nil {
		req.From = search.BehindPartition(*cmd.Range.After)
	}
	if r.Trace != nil && r.Trace.Detailed() {
		r.Trace.Add(run.p.o.View.Self(), "Searching with index "+run.plan.where.Index().Name)
	}
	for {
		result, err := run.p.o.Executor.Search(r, req)
		if err != nil {
			return nil, run.searchError(err)
		}
		if !result.More {
			return result.Page, nil
		}
		if end, ok := search.PositionOfScan(result.Next); ok {
			return row.ContinueAfter(result.Page, end), nil
		}
		if result.Rows > 0 {
			return result.Page, nil
		}
		req.From = result.Next
	}
}

// searchError converts the error of a search by an index that this node does not know: it was just dropped.
func (run *selectRun) searchError(err error) error {
	var notBuilt *search.NotBuilt
	if errors.As(err, &notBuilt) && notBuilt.Failure == nil {
		return invalidf("The secondary index '%s' is not yet available", run.plan.where.Index().Name)
	}
	return err
}
