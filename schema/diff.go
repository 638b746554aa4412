package schema

import (
	"bytes"
	"maps"
	"slices"
)

// Event is one difference between two schemas, in the form of the protocol's SCHEMA_CHANGE event.
type Event struct {
	Change   string // CREATED, UPDATED, DROPPED
	Target   string // KEYSPACE, TABLE, TYPE, FUNCTION, AGGREGATE
	Keyspace string
	// Name is the table, type, function or aggregate. Materialized views count as tables.
	Name      string   // empty for KEYSPACE
	Signature string   // of a FUNCTION or AGGREGATE: it identifies the element
	Args      []string // the types of the arguments of a FUNCTION or AGGREGATE
}

// The values of Event.Change and Event.Target.
const (
	Created = "CREATED"
	Updated = "UPDATED"
	Dropped = "DROPPED"

	TargetKeyspace  = "KEYSPACE"
	TargetTable     = "TABLE"
	TargetType      = "TYPE"
	TargetFunction  = "FUNCTION"
	TargetAggregate = "AGGREGATE"
)

// Diff returns the differences between two schemas as events for registered clients. Drops come before creations, so
// the events can be applied in order. The contents of a dropped keyspace are omitted. System keyspaces are included.
// Successive schemas share unchanged elements, so pointers are compared first.
func Diff(before, after *Schema) []Event {
	var events []Event
	// Sorted, so the order of events depends only on the schemas.
	for _, name := range before.KeyspaceNames() {
		if after.keyspaces[name] == nil {
			events = append(events, Event{Change: Dropped, Target: TargetKeyspace, Keyspace: name})
		}
	}
	for _, name := range after.KeyspaceNames() {
		b, a := before.keyspaces[name], after.keyspaces[name]
		switch {
		case a == b:
			continue
		case b == nil:
			events = append(events, Event{Change: Created, Target: TargetKeyspace, Keyspace: name})
			// Comparing with an empty keyspace reports all contents as created.
			b = NewKeyspace(name, a.Replication, a.DurableWrites)
		case a.DurableWrites != b.DurableWrites || !a.Replication.Definition().Equal(b.Replication.Definition()),
			!maps.EqualFunc(a.Extensions, b.Extensions, bytes.Equal), a.Comment("", "") != b.Comment("", ""),
			a.Label("", "") != b.Label("", ""):
			events = append(events, Event{Change: Updated, Target: TargetKeyspace, Keyspace: name})
		}
		events = diffKeyspace(events, b, a)
	}
	return events
}

// diffKeyspace adds the events of the contents of a keyspace: functions and aggregates are dropped before tables and
// types, and created after them, because they use types.
//
//  1. dropped aggregates, then functions
//  2. dropped tables, then types
//  3. created and updated types, then tables
//  4. created and updated functions, then aggregates
func diffKeyspace(events []Event, b, a *Keyspace) []Event {
	// Aggregates are dropped before the functions that they call.
	events = diffFunctionsDropped(events, b, a)
	// Changes of indexes and views are included: an index is part of its table, and a view is a table.
	dropped, changed := differentTables(b.sorted, a.sorted)
	for _, t := range dropped {
		events = append(events, Event{Change: Dropped, Target: TargetTable, Keyspace: a.Name, Name: t.Name})
	}
	// Types are dropped after the tables that use them.
	for _, name := range b.TypeNames() {
		if a.types[name] == nil {
			events = append(events, Event{Change: Dropped, Target: TargetType, Keyspace: a.Name, Name: name})
		}
	}
	for _, name := range a.TypeNames() {
		switch old := b.types[name]; {
		case old == nil:
			events = append(events, Event{Change: Created, Target: TargetType, Keyspace: a.Name, Name: name})
		case old != a.types[name] && !old.Equal(a.types[name]), !a.sameTypeComments(b, name):
			events = append(events, Event{Change: Updated, Target: TargetType, Keyspace: a.Name, Name: name})
		}
	}
	for _, t := range changed {
		switch old := b.tables[t.Name]; {
		// A table that was dropped and created again has both events. TRUNCATE has none.
		case old == nil || !sameTable(old, t):
			events = append(events, Event{Change: Created, Target: TargetTable, Keyspace: a.Name, Name: t.Name})
		case !t.sameDefinition(old):
			// A new pointer with an unchanged definition, for example after a change of the replication, is not an
			// event.
			events = append(events, Event{Change: Updated, Target: TargetTable, Keyspace: a.Name, Name: t.Name})
		}
	}
	return diffFunctions(events, b, a)
}

// differentTables returns the tables that only old has, and the tables of now whose pointers differ from old. Both
// lists are sorted by name. A table that was dropped and created again is in both results.
//
//	old   a   b   c       dropped   c
//	now   a   b'  d       changed   b', d
func differentTables(old, now []*Table) (dropped, changed []*Table) {
	// Merge the two sorted lists.
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(old) > 0 && len(now) > 0 && old[0] == now[0]:
			old, now = old[1:], now[1:]
		case len(now) == 0 || len(old) > 0 && old[0].Name < now[0].Name:
			dropped = append(dropped, old[0])
			old = old[1:]
		// Only now has the table: it was created.
		case len(old) == 0 || now[0].Name < old[0].Name:
			changed = append(changed, now[0])
			now = now[1:]
		// Both lists have the table, with different pointers. diffKeyspace compares the definitions.
		default:
			if !sameTable(old[0], now[0]) {
				dropped = append(dropped, old[0])
			}
			changed = append(changed, now[0])
			old, now = old[1:], now[1:]
		}
	}
	return dropped, changed
}

// diffFunctionsDropped adds the events of dropped aggregates and functions, aggregates first.
func diffFunctionsDropped(events []Event, b, a *Keyspace) []Event {
	for _, old := range b.Aggregates() {
		if a.aggregates[old.Signature()] == nil {
			events = append(events, old.event(Dropped))
		}
	}
	for _, old := range b.Functions() {
		if a.functions[old.Signature()] == nil {
			events = append(events, old.event(Dropped))
		}
	}
	return events
}

// diffFunctions adds the events of functions and aggregates that were created or changed, functions first.
func diffFunctions(events []Event, b, a *Keyspace) []Event {
	for _, f := range a.Functions() {
		// A replaced function has the same signature and another pointer.
		switch old := b.functions[f.Signature()]; {
		case old == nil:
			events = append(events, f.event(Created))
		case old != f && !old.equal(f):
			events = append(events, f.event(Updated))
		}
	}
	for _, g := range a.Aggregates() {
		switch old := b.aggregates[g.Signature()]; {
		case old == nil:
			events = append(events, g.event(Created))
		case old != g && !old.equal(g):
			events = append(events, g.event(Updated))
		}
	}
	return events
}

// event returns the event of a change of f.
func (f *Function) event(change string) Event {
	return Event{Change: change, Target: TargetFunction, Keyspace: f.Keyspace, Name: f.Name, Signature: f.Signature(),
		Args: ArgumentTexts(f.ArgTypes)}
}

// event returns the event of a change of a.
func (a *Aggregate) event(change string) Event {
	return Event{Change: change, Target: TargetAggregate, Keyspace: a.Keyspace, Name: a.Name, Signature: a.Signature(),
		Args: ArgumentTexts(a.ArgTypes)}
}

// sameDefinition reports whether both tables have the same definition, apart from their replication. Equal digests are
// sufficient; virtual tables have no digest.
func (t *Table) sameDefinition(o *Table) bool {
	if t.digest == o.digest && !t.Virtual && !o.Virtual {
		return true // fast path after a change of the replication, which keeps the digests
	}
	// Columns are compared by value, and the objects to which they point by content.
	same := func(x, y *Column) bool {
		xc, yc := *x, *y
		xc.Type, yc.Type, xc.Mask, yc.Mask, xc.Attributes, yc.Attributes = nil, nil, nil, nil, nil, nil
		return xc == yc && x.Type.Equal(y.Type) && x.Mask.Equal(y.Mask) && x.Attributes.Equal(y.Attributes)
	}
	// Reached by virtual tables, and by tables with different digests. Ids are compared because they are part of the
	// encoding. The caller compares keyspace and name.
	return t.Compact == o.Compact && t.NextColumn == o.NextColumn && slices.EqualFunc(t.all, o.all, same) &&
		slices.EqualFunc(t.Dropped, o.Dropped, func(x, y DroppedColumn) bool {
			return x.Micros == y.Micros && x.Until == y.Until && sameType(x.Declared, y.Declared) &&
				same(&x.Column, &y.Column)
		}) && t.Options.equal(&o.Options) && sameIndexes(t, o) && t.sameView(o)
}
