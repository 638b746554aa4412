package schema

import "cqld/types"

// The types of dropped columns. Their cells stay in files until they are purged, hidden by the time of the drop. As in
// Cassandra, a column with the same name may be added again if its type reads the values of the dropped one. User types
// are recorded as tuples of their fields, because they may be changed or dropped afterwards.

// ExpandUserTypes replaces user types in t by tuples, except in vectors, as Cassandra does. The wire form of both is
// the same.
func ExpandUserTypes(t *types.Type) *types.Type {
	switch t.Kind() {
	case types.Vector:
		return t
	case types.UDT:
		fields := make([]*types.Type, len(t.Elems()))
		for i, f := range t.Elems() {
			fields[i] = ExpandUserTypes(f)
		}
		return types.NewTuple(fields...)
	}
	// Collections and tuples stay what they are; only the types in them are expanded.
	return withParts(t, ExpandUserTypes)
}

// readable reports whether a column of type t may be added in place of a dropped one. A dropped column of a user type
// can be added again with that type, which Cassandra refuses. dropped may be an unexpanded type from an older
// definition.
func readable(t, dropped *types.Type) bool {
	dropped = ExpandUserTypes(dropped)
	switch {
	case t.Kind() == types.UDT && t.MultiCell():
		return false
	case ExpandUserTypes(t).Equal(dropped):
		return true
	// Cells with paths and cells without cannot be read as each other.
	case t.MultiCell() || dropped.MultiCell() || dropped.Kind().IsCollection():
		return false
	}
	// The length of a value in storage must not depend on the drop.
	// Multi-cell types were decided above: both types have one cell here.
	return t.FixedLength() == dropped.FixedLength() && readsValues(t, dropped)
}

// readsValues reports whether each value of type o is one of type t, as Cassandra's isValueCompatibleWith does. It is
// not symmetric.
//
//	blob             every type
//	text             ascii
//	bigint           timestamp
//	timestamp, time  bigint
//	uuid             timeuuid
//	date             int
//	varint           int, bigint, timestamp
//	tuple            tuples with as many or fewer fields, which it reads one by one
func readsValues(t, o *types.Type) bool {
	if t.Equal(o) {
		return true
	}
	from := o.Kind()
	// Kinds whose wire forms the other kind reads. All other pairs are incompatible, also where their widths agree.
	// readable has compared the lengths, so that int and varint only meet as fields of tuples.
	switch t.Kind() {
	case types.Blob:
		return true
	case types.Text:
		return from == types.Ascii
	case types.Bigint:
		return from == types.Timestamp
	case types.Timestamp, types.Time:
		return from == types.Bigint
	case types.UUID:
		return from == types.Timeuuid
	case types.Date:
		return from == types.Int
	case types.Varint:
		return from == types.Int || from == types.Bigint || from == types.Timestamp
	case types.Tuple:
		// Missing fields at the end are null.
		if from != types.Tuple || len(o.Elems()) > len(t.Elems()) {
			return false
		}
		for i, e := range o.Elems() {
			if !readsValues(t.Elems()[i], e) {
				return false
			}
		}
		return true
	}
	return false
}
