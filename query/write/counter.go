package write

import (
	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
)

// isCounterTable reports whether a table has counters; all of its columns outside of the key are counters, so the
// first one suffices. Without such columns, it examines the dropped ones.
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
// EXISTS. Call it before WHERE is compiled, because Cassandra reports them first.
func (c *compiler) checkCounterConditions(conditions int) error {
	if conditions > 0 && isCounterTable(c.Table) {
		return invalid.Errorf("Conditions on counters are not supported")
	}
	return nil
}

// checkCounterModification rejects clauses that are invalid for counter tables. exists means IF EXISTS. The order of
// errors is Cassandra's; call it after WHERE is compiled.
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

// checkBatchKinds refuses batches that mix counters with other changes. It also rejects counters in logged batches:
// counter updates are not idempotent, and a replay of the batch log would count them twice.
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
