package query

import (
	"slices"

	"cqld/cql"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// replicaFilter returns the part of the filters that replicas can evaluate, or nil if there is none. whole means that it
// has all conditions of them. The coordinator still evaluates all filters on the rows that it receives.
func (run *selectRun) replicaFilter() (f *row.Filter, whole bool) {
	table := run.plan.table
	f, whole = &row.Filter{PartitionKey: len(table.PartitionKey)}, true
	last := -1
	for i := range run.filters {
		for _, c := range run.filters[i].conditions() {
			if !c.Supports() || !f.Add(c) {
				whole = false
				continue
			}
			if c.Kind == schema.Clustering {
				last = max(last, c.Position)
			}
		}
		whole = whole && run.filters[i].expressible()
	}
	if len(f.Conditions) == 0 {
		return nil, false
	}
	for _, c := range table.Clustering[:last+1] {
		f.Clustering = append(f.Clustering, row.ClusteringColumn{Type: c.Type, Desc: c.Desc})
	}
	return f, whole
}

// expressible reports whether replicas can evaluate the filter: it restricts one column, which was never dropped.
// Comparisons of several clustering columns at once stay with the coordinator.
func (f *rowFilter) expressible() bool {
	return len(f.r.columns) == 1 && !f.r.multi && f.r.first().DroppedMicros == 0
}

// conditions returns the filter as conditions, or nil if replicas cannot evaluate it.
func (f *rowFilter) conditions() (out []row.Condition) {
	if !f.expressible() {
		return nil
	}
	col := f.r.first()
	add := func(op row.FilterOperator, values ...[]byte) {
		out = append(out, row.Condition{Kind: col.Kind, Column: col.ID, Position: col.Position, Operator: op, Type: col.Type, Values: values})
	}
	switch f.r.kind {
	case restrictEqual:
		add(row.FilterEqual, f.equal[0])
	case restrictIn:
		var values [][]byte
		for _, in := range f.in {
			if in[0] != nil { // null equals nothing
				values = append(values, in[0])
			}
		}
		add(row.FilterIn, values...)
	case restrictSlice:
		if f.lower != nil {
			add(operatorOf(f.r.lower, row.FilterGreater, row.FilterGreaterOrEqual), f.lower[0])
		}
		if f.upper != nil {
			add(operatorOf(f.r.upper, row.FilterLess, row.FilterLessOrEqual), f.upper[0])
		}
	case restrictContains:
		for _, e := range f.elements {
			switch e.operator {
			case cql.Contains:
				add(row.FilterContains, e.value)
			case cql.ContainsKey:
				add(row.FilterContainsKey, e.value)
			case cql.Equal:
				add(row.FilterEntry, e.key, e.value)
			}
		}
	}
	return out
}

// operatorOf returns the operator of a bound.
func operatorOf(b *bound, exclusive, inclusive row.FilterOperator) row.FilterOperator {
	if b.inclusive {
		return inclusive
	}
	return exclusive
}

// pushDown gives the scan the filter for replicas, at a consistency level. pushed means that the rows which the scan
// receives satisfy all filters, except while the ring changes.
func (run *selectRun) pushDown(level ring.Consistency) (pushed bool) {
	run.cursor.Command.Filter = nil
	if len(run.filters) == 0 || level.IsSerial() || run.p.isVirtual(run.plan.table) {
		return false
	}
	f, whole := run.replicaFilter()
	run.cursor.Command.Filter = f
	return whole && (f.OnKey() || run.oneAnswers(level))
}

// oneAnswers reports whether one replica's answer is enough at a consistency level.
func (run *selectRun) oneAnswers(level ring.Consistency) bool {
	return level.BlockFor(run.plan.table.Replication, run.p.localDatacenter()) == 1
}

// localDatacenter returns the name of this node's data center, or an empty string if the topology does not contain it.
func (p *Processor) localDatacenter() string {
	if n := p.o.View.Topology().Node(p.o.View.Self()); n != nil {
		return n.Datacenter
	}
	return ""
}

// filterPlaces returns the columns that replicas evaluate at a consistency level, and those that only the coordinator
// evaluates.
func (run *selectRun) filterPlaces(level ring.Consistency) (replicas, coordinator []*schema.Column) {
	run.pushDown(level)
	versions := run.oneAnswers(level)
	for i := range run.filters {
		columns := run.filters[i].r.columns
		sent := run.cursor.Command.Filter != nil && slices.ContainsFunc(run.cursor.Command.Filter.Conditions, func(c row.Condition) bool {
			return c.Kind == columns[0].Kind && c.Column == columns[0].ID && (c.OnKey() || versions)
		})
		if sent {
			replicas = append(replicas, columns...)
		} else {
			coordinator = append(coordinator, columns...)
		}
	}
	return replicas, coordinator
}
