package read

import (
	"slices"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// replicaFilter returns the part of the filters that replicas can evaluate, or nil if there is none. whole means that
// it has all conditions of them. The coordinator still evaluates all filters on the rows that it receives.
func (run *reading) replicaFilter() (f *row.Filter, whole bool) {
	table := run.plan.table
	f, whole = &row.Filter{PartitionKey: len(table.PartitionKey)}, true
	last := -1
	for i := range run.filters {
		for _, c := range run.filters[i].Conditions() {
			if !c.Supports() || !f.Add(c) {
				whole = false
				continue
			}
			if c.Kind == schema.Clustering {
				last = max(last, c.Position)
			}
		}
		whole = whole && run.filters[i].Expressible()
	}
	if len(f.Conditions) == 0 {
		return nil, false
	}
	for _, c := range table.Clustering[:last+1] {
		f.Clustering = append(f.Clustering, row.ClusteringColumn{Type: c.Type, Desc: c.Desc})
	}
	return f, whole
}

// pushDown gives the scan the filter for replicas, at a consistency level. pushed means that the rows which the scan
// receives satisfy all filters, except while the ring changes.
func (run *reading) pushDown(level ring.Consistency) (pushed bool) {
	run.cursor.Command.Filter = nil
	if len(run.filters) == 0 || level.IsSerial() || run.plan.fragments != nil ||
		run.reader.o.IsVirtual(run.plan.table) {
		return false
	}
	f, whole := run.replicaFilter()
	run.cursor.Command.Filter = f
	return whole && (f.OnKey() || run.oneAnswers(level))
}

// oneAnswers reports whether one replica's answer is enough at a consistency level.
func (run *reading) oneAnswers(level ring.Consistency) bool {
	return level.BlockFor(run.plan.table.Replication, run.reader.o.Datacenter()) == 1
}

// filterPlaces returns the columns that replicas evaluate at a consistency level, and those that only the coordinator
// evaluates.
func (run *reading) filterPlaces(level ring.Consistency) (replicas, coordinator []*schema.Column) {
	run.pushDown(level)
	versions := run.oneAnswers(level)
	for i := range run.filters {
		columns := run.filters[i].Columns()
		sent := run.cursor.Command.Filter != nil && slices.ContainsFunc(run.cursor.Command.Filter.Conditions,
			func(c row.Condition) bool {
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
