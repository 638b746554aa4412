package read

import (
	"cqld/query/guardrail"
	"cqld/request"
	"cqld/ring"
)

// guardRead applies the guardrails on a SELECT, before its WHERE is evaluated. They depend on the plan and the level
// only, so no value is bound before they are checked.
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
	// An index without a partition key asks all nodes.
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

// guardIntersection applies the guardrail on filters by several columns, where a read has more than one replica and
// compares them. Replicas may each have a different part of a row, so that no replica finds a row which matches only
// after reconciliation. The levels with one replica are exempt.
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

// guardKeys applies the guardrails on the keys and slices that WHERE selects, and on the size of pages. A single key or
// slice is not a product, so only larger numbers are checked as one.
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
	// One row is one page of any size.
	if err == nil && !run.plan.single {
		err = check(guardrail.PageSize, pageSize, table)
	}
	return err
}
