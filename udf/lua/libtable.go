package lua

import (
	"slices"
	"strings"

	"cqld/udf/value"
)

// tableFunctions returns the functions of table. Positions count from 1. insert, remove and sort change their table
// in place. By default, they operate on the keys 1, 2, … without a gap. A table with holes is treated up to its
// length (Len).
func tableFunctions() map[string]native {
	return map[string]native{
		"insert": func(fr *frame, a args) []value.Value {
			t := a.table(0)
			// With two arguments the value is appended; with three the second one is the position.
			v, at := a.at(1), int64(t.Len())+1
			if len(a.values) > 2 {
				v, at = a.at(2), a.integer(1)
			}
			// The position after the last value appends.
			if at < 1 || at > int64(t.Len())+1 {
				a.bad(1, "position out of bounds")
			}
			switch {
			// nil may be appended, and changes nothing.
			case at == int64(t.Len())+1:
				t.Set(fr.m, at, v)
			case v == nil:
				a.bad(2, "value expected")
			default:
				t.Insert(fr.m, int(at), v)
			}
			return nil
		},
		"remove": func(fr *frame, a args) []value.Value {
			t := a.table(0)
			at := a.integer(1, int64(t.Len()))
			// Lua accepts the position after the last value, and removes nothing.
			if t.Len() == 0 || at == int64(t.Len())+1 {
				return one(nil)
			}
			if at < 1 || at > int64(t.Len()) {
				a.bad(1, "position out of bounds")
			}
			// Later values move down by one.
			return one(t.Remove(fr.m, int(at)))
		},
		"concat": func(fr *frame, a args) []value.Value {
			t, separator := a.table(0), ""
			if a.at(1) != nil {
				separator = a.string(1)
			}
			// The bounds are numbers of the script: a range of missing values fails at its first one.
			from, to := a.integer(2, 1), a.integer(3, int64(t.Len()))
			var b strings.Builder
			for i := from; from <= to; i++ {
				s, ok := stringOf(fr.m, t.Get(fr.m, i))
				if !ok {
					value.Failf("invalid value (%s) at index %d in table for 'concat'", typeName(t.Get(fr.m, i)), i)
				}
				fr.m.Alloc(int64(len(s) + len(separator)))
				b.WriteString(s)
				// Not a condition of the loop: the largest integer has no successor.
				if i == to {
					break
				}
				b.WriteString(separator)
			}
			return one(b.String())
		},
		"sort":   sortTable,
		"unpack": unpack,
		"pack": func(fr *frame, a args) []value.Value {
			t := value.NewTable(fr.m)
			for i, v := range a.values {
				t.Set(fr.m, int64(i+1), v)
			}
			// The number of arguments, which the length does not show if some are nil.
			t.Set(fr.m, "n", int64(len(a.values)))
			return one(t)
		},
	}
}

// sortTable sorts the values of 1, 2, …. The order of equal values is their order before. Comparisons of the script
// count as its calls. The function may be called more often than Lua would, as each comparison may ask for both
// directions.
func sortTable(fr *frame, a args) []value.Value {
	t := a.table(0)
	less := func(x, y value.Value) bool {
		// The line is 0 for the library. NaN is not less than any value.
		order, ok := compare(fr.m, x, y, 0)
		return ok && order < 0
	}
	// The function of the script replaces <.
	if fn := a.at(1); fn != nil {
		less = func(x, y value.Value) bool { return truth(at(fr.call(fn, []value.Value{x, y}, 0), 0)) }
	}
	// A copy: a comparison may call the script, which may change the table.
	fr.m.Alloc(int64(16 * t.Len()))
	list := slices.Clone(t.Values())
	slices.SortStableFunc(list, func(x, y value.Value) int {
		// A comparison that is not consistent gives some order; it neither fails nor loops.
		fr.m.Step()
		switch {
		case less(x, y):
			return -1
		case less(y, x):
			return 1
		}
		return 0
	})
	// The function may have changed the length: the values are set in any case.
	for i, v := range list {
		t.Set(fr.m, int64(i+1), v)
	}
	return nil
}
