package schema

import "cqld/types"

// Dropped columns keep their types. Their cells stay in files, hidden by the time of the drop, until they are purged.
// As in Cassandra, a column with the same name can be added again if its type can read the old values. User-defined
// types are recorded as tuples of their fields, because they may be altered or dropped later.

// ExpandUserTypes replaces user-defined types in t by tuples with the same wire form. Like Cassandra, it does not do so
// inside vectors.
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
	// Only the parts of collections and tuples are expanded.
	return withParts(t, ExpandUserTypes)
}

// readable reports whether a column of type t may replace a dropped column with the same name. Unlike in Cassandra, a
// dropped column of a user-defined type can be added again with that type. dropped may be an unexpanded type from an
// older definition.
func readable(t, dropped *types.Type) bool {
	dropped = ExpandUserTypes(dropped)
	switch {
	case t.Kind() == types.UDT && t.MultiCell():
		return false
	case ExpandUserTypes(t).Equal(dropped):
		return true
	// Multi-cell and single-cell columns are stored differently.
	case t.MultiCell() || dropped.MultiCell() || dropped.Kind().IsCollection():
		return false
	}
	// Both types have one cell here. The length of values in storage must not change.
	return t.FixedLength() == dropped.FixedLength() && readsValues(t, dropped)
}

// readsValues reports whether every value of type o is also a value of type t, like Cassandra's isValueCompatibleWith.
// It is not symmetric.
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
	// All other pairs are incompatible, even if their lengths agree. readable has compared the lengths, so varint and
	// int only meet as fields of tuples.
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
