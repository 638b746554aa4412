package read

import (
	"slices"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// replicaFilter returns the part of the filters that replicas can evaluate, or nil if there is none. whole means that
// f contains all conditions. The coordinator still evaluates all filters on the rows that it receives, so a filter at
// replicas only saves the transfer of rows. A replica that does not know a condition, or ignores the filter, returns
// more rows.
func (run *reading) replicaFilter() (f *row.Filter, whole bool) {
	table := run.plan.table
	f, whole = &row.Filter{PartitionKey: len(table.PartitionKey)}, true
	last := -1
	for i := range run.filters {
		for _, c := range run.filters[i].Conditions() {
			// Only the coordinator evaluates this condition.
			if !c.Supports() || !f.Add(c) {
				whole = false
				continue
			}
			// Conditions on clustering columns need the types of all columns up to the last of them.
			if c.Kind == schema.Clustering {
				last = max(last, c.Position)
			}
		}
		// whole is false if a filter cannot be expressed as conditions, for example because it contains a function.
		whole = whole && run.filters[i].Expressible()
	}
	// Do not send an empty filter.
	if len(f.Conditions) == 0 {
		return nil, false
	}
	// A clustering is decoded from its beginning.
	for _, c := range table.Clustering[:last+1] {
		f.Clustering = append(f.Clustering, row.ClusteringColumn{Type: c.Type, Desc: c.Desc})
	}
	return f, whole
}

// pushDown adds the filter for replicas to the command of the scan, for a consistency level. pushed means that the
// rows which the scan receives satisfy all filters, except while the ring changes. pushed only affects the sizes of
// commands; the result is correct either way.
func (run *reading) pushDown(level ring.Consistency) (pushed bool) {
	run.cursor.Command.Filter = nil
	// A serial read needs all rows of its partition. This node generates virtual tables and fragments itself.
	if len(run.filters) == 0 || level.IsSerial() || run.plan.fragments != nil ||
		run.reader.o.IsVirtual(run.plan.table) {
		return false
	}
	f, whole := run.replicaFilter()
	run.cursor.Command.Filter = f
	// Replicas evaluate conditions on non-key columns only if one answer is enough (package coordinator, filter.go).
	return whole && (f.OnKey() || run.oneAnswers(level))
}

// oneAnswers reports whether one replica's answer is enough at a consistency level. With more replicas, an old version
// at one of them might fail a condition that the newest one satisfies, and the row would be lost.
func (run *reading) oneAnswers(level ring.Consistency) bool {
	return level.BlockFor(run.plan.table.Replication, run.reader.o.Datacenter()) == 1
}

// filterPlaces returns the columns that replicas evaluate at a consistency level, and those that only the coordinator
// evaluates. EXPLAIN calls it. It sets the filter of the command, like an execution, and reads no rows.
func (run *reading) filterPlaces(level ring.Consistency) (replicas, coordinator []*schema.Column) {
	run.pushDown(level)
	versions := run.oneAnswers(level)
	for i := range run.filters {
		columns := run.filters[i].Columns()
		// A relation has conditions on one kind of columns, so the first column represents all of them.
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
