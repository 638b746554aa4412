package read

import (
	"cqld/query/guardrail"
	"cqld/request"
	"cqld/ring"
)

// guardRead applies the guardrails on a SELECT, before its WHERE is evaluated. They depend only on the plan and the
// consistency level, so they need no bound values.
func (run *reading) guardRead(r *request.Request) error {
	g := run.guard
	// No guardrail applies to statements on data, or the client is a superuser.
	if g == nil {
		return nil
	}
	if run.plan.grouped {
		if err := g.Enabled(guardrail.GroupBy); err != nil {
			return err
		}
	}
	// An index search without a partition key reads from all nodes.
	if where := run.plan.where; where.KeyRange && (where.Index() != nil || run.plan.near != nil) {
		if err := g.Enabled(guardrail.NonPartitionRestrictedIndexQuery); err != nil {
			return err
		}
	}
	if run.plan.allowFiltering {
		if err := g.Enabled(guardrail.AllowFiltering); err != nil {
			return err
		}
	}
	// Read consistency levels can be warned about or disallowed.
	_, err := g.Permitted(guardrail.ReadConsistency, r.Consistency.String())
	return err
}

// guardIntersection applies the guardrail on filters by several mutable columns. If a read reconciles several
// replicas, each may have a different part of a row, and none finds a row that matches only after reconciliation.
// Levels that read one replica are exempt.
func (run *reading) guardIntersection(r *request.Request) error {
	if run.reader.o.Guardrails == nil || r.Consistency == ring.One || r.Consistency == ring.LocalOne ||
		!run.plan.where.Intersects() {
		return nil
	}
	k := run.reader.o.View.Schema().Keyspace(run.plan.table.Keyspace)
	// One replica has one version of each row.
	if k == nil || k.Replication.Total() < 2 {
		return nil
	}
	return run.reader.o.Guard(r).Intersection()
}

// guardKeys applies the guardrails on the keys and slices that WHERE selects, and on the size of pages. Only more
// than one key or slice is checked as a product of IN lists.
func (run *reading) guardKeys(keys, slices, pageSize int) error {
	g, table := run.guard, run.plan.table.Name
	if g == nil {
		return nil
	}
	check := func(t guardrail.Threshold, n int, what string) error { return g.Within(t, int64(n), what) }
	err := check(guardrail.PartitionKeysInSelect, keys, table)
	if err == nil && keys > 1 {
		err = check(guardrail.InSelectProduct, keys, "partition key")
	}
	if err == nil && slices > 1 {
		err = check(guardrail.InSelectProduct, slices, "clustering key")
	}
	// A single row needs no paging, so the page size does not matter.
	if err == nil && !run.plan.single {
		err = check(guardrail.PageSize, pageSize, table)
	}
	return err
}
