package schema

import (
	"bytes"
	"maps"
	"slices"
)

// Event is one difference between two schemas, in the terms of a SCHEMA_CHANGE event.
type Event struct {
	Change   string // CREATED, UPDATED, DROPPED
	Target   string // KEYSPACE, TABLE, TYPE
	Keyspace string
	Name     string // empty for KEYSPACE
}

// The values of Event.Change and Event.Target.
const (
	Created = "CREATED"
	Updated = "UPDATED"
	Dropped = "DROPPED"

	TargetKeyspace = "KEYSPACE"
	TargetTable    = "TABLE"
	TargetType     = "TYPE"
)

// Diff returns the differences between two schemas, for clients that have registered for events. Dropped elements come
// before created ones, so that the events can be applied in order. The content of a dropped keyspace is omitted. System
// keyspaces are compared as well.
func Diff(before, after *Schema) []Event {
	var events []Event
	for _, name := range before.KeyspaceNames() {
		if after.keyspaces[name] == nil {
			events = append(events, Event{Dropped, TargetKeyspace, name, ""})
		}
	}
	for _, name := range after.KeyspaceNames() {
		b, a := before.keyspaces[name], after.keyspaces[name]
		switch {
		case a == b:
			continue
		case b == nil:
			events = append(events, Event{Created, TargetKeyspace, name, ""})
			b = NewKeyspace(name, a.Replication, a.DurableWrites)
		case a.DurableWrites != b.DurableWrites || !a.Replication.Equal(b.Replication),
			!maps.EqualFunc(a.Extensions, b.Extensions, bytes.Equal):
			events = append(events, Event{Updated, TargetKeyspace, name, ""})
		}
		events = diffKeyspace(events, b, a)
	}
	return events
}

func diffKeyspace(events []Event, b, a *Keyspace) []Event {
	for _, name := range b.TableNames() {
		if t := a.tables[name]; t == nil || t.StorageID != b.tables[name].StorageID {
			events = append(events, Event{Dropped, TargetTable, a.Name, name})
		}
	}
	for _, name := range b.TypeNames() {
		if a.types[name] == nil {
			events = append(events, Event{Dropped, TargetType, a.Name, name})
		}
	}
	for _, name := range a.TypeNames() {
		switch old := b.types[name]; {
		case old == nil:
			events = append(events, Event{Created, TargetType, a.Name, name})
		case !old.Equal(a.types[name]):
			events = append(events, Event{Updated, TargetType, a.Name, name})
		}
	}
	for _, name := range a.TableNames() {
		t, old := a.tables[name], b.tables[name]
		switch {
		case old == nil || old.StorageID != t.StorageID:
			events = append(events, Event{Created, TargetTable, a.Name, name})
		case old != t && !t.sameDefinition(old):
			events = append(events, Event{Updated, TargetTable, a.Name, name})
		}
	}
	return events
}

// sameDefinition reports whether both tables have the same definition, apart from their replication.
func (t *Table) sameDefinition(o *Table) bool {
	same := func(x, y *Column) bool {
		xc, yc := *x, *y
		xc.Type, yc.Type, xc.Mask, yc.Mask, xc.Attributes, yc.Attributes = nil, nil, nil, nil, nil, nil
		return xc == yc && x.Type.Equal(y.Type) && x.Mask.Equal(y.Mask) && x.Attributes.Equal(y.Attributes)
	}
	return t.NextColumn == o.NextColumn && slices.EqualFunc(t.all, o.all, same) &&
		slices.EqualFunc(t.Dropped, o.Dropped, func(x, y DroppedColumn) bool {
			return x.Micros == y.Micros && same(&x.Column, &y.Column)
		}) && t.Options.equal(&o.Options) && slices.EqualFunc(t.indexes, o.indexes, (*Index).equal)
}
