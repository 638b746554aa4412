package write

import (
	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
)

// isCounterTable reports whether a table has counters; such a table has only counters besides its key, so that its
// first column is enough. Without columns besides the key, the dropped ones decide.
func isCounterTable(t *schema.Table) bool {
	if len(t.Regulars) > 0 {
		return t.Regulars[0].IsCounter()
	}
	if len(t.Statics) > 0 {
		return t.Statics[0].IsCounter()
	}
	return t.IsCounter()
}

// checkCounterConditions refuses conditions of statements on counter tables. conditions is their number, without IF
// EXISTS. It is called before WHERE is compiled: Cassandra refuses them first.
func (c *compiler) checkCounterConditions(conditions int) error {
	if conditions > 0 && isCounterTable(c.Table) {
		return invalid.Errorf("Conditions on counters are not supported")
	}
	return nil
}

// checkCounterModification refuses, after the errors in WHERE, clauses that statements on counter tables must not have.
// exists means IF EXISTS. Their order is Cassandra's.
func (c *compiler) checkCounterModification(u cql.Using, exists bool) error {
	// TIMEOUT is valid for counters.
	switch {
	case !isCounterTable(c.Table):
		return nil
	case exists:
		return invalid.Errorf("Conditional updates are not supported on counter tables")
	case u.Timestamp != nil:
		return invalid.Errorf("Cannot provide custom timestamp for counter updates")
	case u.TTL != nil:
		return invalid.Errorf("Cannot provide custom TTL for counter updates")
	}
	return nil
}

// checkBatchKinds refuses batches that mix counters with other changes. Counter updates are not idempotent: a batch log
// that is replayed would count them twice, so they are not in logged batches either.
func checkBatchKinds(kind cql.BatchKind, statements []*Modification) error {
	counters := 0
	for _, s := range statements {
		if isCounterTable(s.table) {
			counters++
		}
	}
	switch {
	case kind == cql.BatchCounter && counters < len(statements):
		return invalid.Errorf("Cannot include non-counter statement in a counter batch")
	case counters > 0 && counters < len(statements):
		return invalid.Errorf("Counter and non-counter mutations cannot exist in the same batch")
	// An empty logged batch passes: it changes nothing.
	case kind == cql.BatchLogged && counters > 0:
		return invalid.Errorf("Cannot include a counter statement in a logged batch")
	}
	return nil
}
