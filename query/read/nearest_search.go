package read

import (
	"cqld/request"
	"cqld/row"
	"cqld/schema"
	"cqld/search"
)

// searchesVectors reports whether the plan finds its rows with the vector index. Otherwise it compares all rows that
// WHERE selects from a partition or with another index. It does not search for a static column, which has one vector
// for several rows, or within a selected partition, which is cheaper to scan.
func (p *Plan) searchesVectors() bool {
	return p.near != nil && p.near.col.Kind == schema.Regular && p.where.KeyRange && p.where.Index() == nil &&
		!p.where.HasFilters() && !p.where.HasClustering()
}

// read finds the rows with the best scores with the vector index. Each step of the search returns reconciled rows of
// all replicas, best scores first. read ends when it has enough rows or the index has no more. It decodes the rows
// itself, because it uses neither a scan nor a cursor.
func (n *nearestRows) read(run *reading, r *request.Request) error {
	plan := run.plan
	req := &search.Request{
		Table: plan.table, Index: plan.near.index.ID, Tokens: run.cursor.Tokens, Order: search.ByScore,
		Near:        n.value,
		Consistency: r.Consistency, Now: run.cursor.Command.Now, Cancel: run.scan.Cancel,
	}
	run.view.Reset(plan.table, run.cursor.Command.Now)
	var reader row.PageReader
	for {
		// Some rows that the search returns may not qualify, so it continues until there are enough.
		req.Limit, req.Timeout = n.limit-len(n.rows), run.remaining(run.timeouts.Range)
		result, err := run.reader.o.Executor.Search(r, req)
		if err != nil {
			return err
		}
		v := &run.view
		for reader.Reset(result.Page); reader.NextPartition(); {
			v.Header = reader.Header
			v.Partition(reader.Key)
			// Reset takes the page without a copy: values of the rows refer to it until Shrink. fixed counts the
			// columns of the partition; each row marks its own after them.
			fixed := v.Marked()
			for reader.NextRow(&v.Row) {
				r.Cost.Rows++
				v.Next(fixed, v.Row.Clustering)
				v.Mark(&v.Row)
				if err := n.keep(run, v); err != nil {
					return err
				}
			}
		}
		if err := reader.Err(); err != nil {
			return err
		}
		// The search reserved memory for the page, which is no longer used.
		r.Memory.Shrink(int64(len(result.Page)))
		if req.From = result.Next; !result.More || len(n.rows) == n.limit {
			return nil
		}
	}
}
