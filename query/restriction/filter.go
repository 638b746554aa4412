package restriction

import (
	"slices"
	"sort"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/rowview"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
	"cqld/types/analysis"
)

// Filter is a restriction with the values of one execution, and is evaluated on rows. The kind of r determines which
// fields are set. Values are serialized as in rows; nil means null. A Filter may be used by several goroutines,
// because nothing changes after eval.
type Filter struct {
	// token is set within OR only. Outside of OR, only the token range is read.
	token *tokenFilter
	r     *restriction
	// equal contains the value of = for each column. in contains a list of such values for IN and NOT IN (see
	// sortIn).
	equal [][]byte
	in    [][][]byte
	// lower and upper are the bounds of a range; nil means unbounded. A bound may have fewer columns than r.
	lower [][]byte
	upper [][]byte
	// elements are conditions on a collection. All of them must hold.
	elements []elementFilter
	pattern  pattern
	// any contains one list for each alternative of an OR. A row passes if it passes all filters of one list.
	any [][]Filter // of OR
}

// elementFilter is a condition on an element of a collection, with the values of one execution. key is nil except for
// an entry of a map. m['a'] = 1 has the key and the value, CONTAINS and CONTAINS KEY have only the value.
type elementFilter struct {
	operator   cql.Operator
	key, value []byte
	analyzer   *analysis.Analyzer // nil means that values are compared without analysis
}

// Filters evaluates the restrictions of WHERE that filter rows. It appends to dst, whose memory the caller may reuse
// for the next execution. It returns an error for values that are invalid in WHERE, such as null.
func (rs *Set) Filters(s *term.Scope, dst []Filter) ([]Filter, error) {
	return appendFilters(s, dst, rs.filters)
}

// appendFilters evaluates restrictions. The filters share only immutable, compiled restrictions, so concurrent
// executions are safe.
func appendFilters(s *term.Scope, dst []Filter, all []*restriction) ([]Filter, error) {
	for _, r := range all {
		f := Filter{r: r}
		if err := f.eval(s); err != nil {
			return nil, err
		}
		dst = append(dst, f)
	}
	return dst, nil
}

// eval evaluates the values of the filter's restriction. All values are evaluated before the first row is read,
// so an error does not depend on the data.
func (f *Filter) eval(s *term.Scope) (err error) {
	r := f.r
	// A token restriction is a filter only within OR.
	if r.token {
		f.token, err = r.evalToken(s)
		return err
	}
	switch r.kind {
	case kindEqual:
		f.equal, err = filterValues(s, r.equal, r.columns)
	case kindIn:
		f.in, err = r.evalFilterIn(s)
		f.sortIn()
	case kindNotIn:
		f.in, err = r.evalNotIn(s)
		f.sortIn()
	// A missing bound is nil.
	case kindSlice:
		if r.lower != nil {
			f.lower, err = filterValues(s, r.lower.value, r.columns)
		}
		if r.upper != nil && err == nil {
			f.upper, err = filterValues(s, r.upper.value, r.columns)
		}
	// All elements restrict the same column.
	case kindContains, kindNotContains:
		for _, e := range r.elements {
			x, err := e.eval(s, r.first())
			if err != nil {
				return err
			}
			f.elements = append(f.elements, x)
		}
	case kindLike:
		f.pattern, err = r.evalPattern(s)
	// Errors in an alternative fail the statement, even if another alternative matches.
	case kindOr:
		for _, all := range r.any {
			filters, err := appendFilters(s, nil, all)
			if err != nil {
				return err
			}
			f.any = append(f.any, filters)
		}
	}
	return err
}

// filterValues evaluates a value with which rows are compared. Null and unset are errors, with other messages than
// for keys.
func filterValues(s *term.Scope, v *valueTerm, columns []*schema.Column) ([][]byte, error) {
	// Terms are evaluated twice, first for their kinds and then for the values; both are cheap.
	if v.marker == nil {
		for i, t := range v.terms {
			x, err := t.Eval(s)
			if err != nil {
				return nil, err
			}
			if err := supported(x, "value", columns[i]); err != nil {
				return nil, err
			}
		}
	}
	return v.eval(s, columns, nil)
}

// supported refuses null and unset. what names the value in the message: "value", "map key" or "map value".
func supported(v wire.Value, what string, col *schema.Column) error {
	switch v.Kind {
	case wire.ValueNull:
		return invalid.Errorf("Unsupported null %s for column %s", what, col.Name)
	case wire.ValueUnset:
		return invalid.Errorf("Unsupported unset %s for column %s", what, col.Name)
	}
	return nil
}

// eval evaluates the key and the value. As in Cassandra, the message for null and unset depends on the operator: for
// != on a map entry, it names the entry.
func (e *element) eval(s *term.Scope, col *schema.Column) (x elementFilter, err error) {
	x.operator, x.analyzer = e.operator, e.analyzer
	what := "value"
	if e.key != nil {
		what = "map value"
		k, err := e.key.Eval(s)
		if err != nil {
			return x, err
		}
		if err := supported(k, "map key", col); err != nil {
			if e.name != "" {
				err = invalid.Errorf("Invalid %s map key for column %s", nothing(k), col.Name)
			}
			return x, err
		}
		x.key = term.NotNil(k.Bytes)
	}
	v, err := e.value.Eval(s)
	if err != nil {
		return x, err
	}
	if v.Kind == wire.ValueNull && (e.operator == cql.NotContains || e.operator == cql.NotContainsKey) {
		return x, invalid.Errorf("Invalid null value for column %s", col.Name) // Cassandra 6's message
	}
	// The message for != contains the name of the element.
	if v.Kind != wire.ValueSet && e.name != "" {
		return x, invalid.Errorf("Invalid %s value for %s", nothing(v), e.name)
	}
	x.value = term.NotNil(v.Bytes)
	return x, supported(v, what, col)
}

// nothing returns the word for a null or unset value in messages.
func nothing(v wire.Value) string {
	if v.Kind == wire.ValueUnset {
		return "unset"
	}
	return "null"
}

// Matches reports whether a row passes all filters. If filters is empty, every row passes.
func Matches(filters []Filter, v *rowview.View) bool {
	for i := range filters {
		if !filters[i].matches(v) {
			return false
		}
	}
	return true
}

// matches reports whether v passes f. A comparison with null is never true, even for NOT IN, so a row with a null
// column passes only an OR with another alternative.
func (f *Filter) matches(v *rowview.View) bool {
	columns := f.r.columns
	// A token needs no values.
	if f.token != nil {
		return f.token.matches(f.r, v)
	}
	switch f.r.kind {
	// contains handles a null collection, and the alternatives of OR handle their columns.
	case kindContains, kindNotContains:
		return f.contains(v.Value(columns[0]))
	case kindOr:
		return slices.ContainsFunc(f.any, func(all []Filter) bool { return Matches(all, v) })
	}
	// Up to four columns fit without an allocation.
	var array [4][]byte
	values := array[:0]
	for _, c := range columns {
		x := v.Value(c)
		if x == nil {
			return false
		}
		values = append(values, x)
	}
	switch f.r.kind {
	// A bound tuple may be shorter; then the common prefix is compared.
	case kindEqual:
		if f.r.analyzer != nil {
			return f.r.analyzer.Matches(values[0], f.equal[0])
		}
		return compareTuples(columns, values, f.equal) == 0
	case kindIn, kindNotIn:
		return f.inList(values) == (f.r.kind == kindIn)
	case kindLike:
		if f.r.analyzer != nil {
			return f.pattern.matchesTerm(f.r.analyzer, values[0])
		}
		return f.pattern.matches(values[0])
	}
	// The restriction is a range, whose bounds may have fewer columns than values.
	if f.lower != nil {
		if n := compareTuples(columns, values, f.lower); n < 0 || n == 0 && !f.r.lower.inclusive {
			return false
		}
	}
	if f.upper != nil {
		if n := compareTuples(columns, values, f.upper); n > 0 || n == 0 && !f.r.upper.inclusive {
			return false
		}
	}
	return true
}

// sortIn sorts a list of IN or NOT IN that is too long to be searched value by value for each row. It removes values
// of IN that contain null, which match nothing; evalNotIn has rejected them for NOT IN.
func (f *Filter) sortIn() {
	if len(f.in) <= listSearched {
		return
	}
	f.in = slices.DeleteFunc(f.in, hasNull)
	slices.SortFunc(f.in, func(a, b [][]byte) int { return compareTuples(f.r.columns, a, b) })
}

// hasNull reports whether a value of IN contains null.
func hasNull(in [][]byte) bool {
	return slices.ContainsFunc(in, func(b []byte) bool { return b == nil })
}

// inList reports whether the list of IN or NOT IN contains values. No value is null.
func (f *Filter) inList(values [][]byte) bool {
	columns := f.r.columns
	if len(f.in) > listSearched {
		_, found := sort.Find(len(f.in), func(i int) int { return compareTuples(columns, values, f.in[i]) })
		return found
	}
	return slices.ContainsFunc(f.in, func(in [][]byte) bool {
		return !hasNull(in) && compareTuples(columns, values, in) == 0
	})
}

// compareTuples compares the common prefix: (c, d) with a bound on c only by c. DESC columns are compared in the same
// way, because bounds refer to values and not to the clustering order. The result is negative, zero or positive, as
// for bytes.Compare.
func compareTuples(columns []*schema.Column, a, b [][]byte) int {
	for i := range min(len(a), len(b)) {
		if n := columns[i].Type.Compare(a[i], b[i]); n != 0 {
			return n
		}
	}
	return 0
}

// contains reports whether a serialized collection satisfies all elements of the filter. collection is nil for null
// and for an empty multi-cell collection; these fail every condition, including NOT CONTAINS.
func (f *Filter) contains(collection []byte) bool {
	if collection == nil {
		return false
	}
	t := f.r.first().Type
	for _, e := range f.elements {
		var ok bool
		// With an analyzer, compare the terms of each element.
		if e.analyzer != nil {
			if !e.found(t, collection) {
				return false
			}
			continue
		}
		switch e.operator {
		// Lookup finds the key of a map, or the element of a set.
		case cql.ContainsKey:
			_, ok = t.Lookup(collection, e.value)
		case cql.Contains:
			ok = t.Contains(collection, e.value)
		case cql.NotContainsKey:
			_, found := t.Lookup(collection, e.value)
			ok = !found
		case cql.NotContains:
			ok = !t.Contains(collection, e.value)
		case cql.Equal, cql.NotEqual: // both fail without the entry
			var found []byte
			found, ok = t.Lookup(collection, e.key)
			ok = ok && (t.Elems()[1].Compare(found, e.value) == 0) == (e.operator == cql.Equal)
		}
		if !ok {
			return false
		}
	}
	return true
}

// found reports whether an element of a collection, or a key, matches after analysis. It analyzes every element, but
// only rows that the index has found are filtered this way. For a list or set, the index is the position; for a map,
// 2i is the i-th key and 2i + 1 its value.
func (e *elementFilter) found(t *types.Type, collection []byte) bool {
	for i := range t.Len(collection) {
		at := i
		if t.Kind() == types.Map { // keys and values alternate
			at = 2 * i
			if e.operator == cql.Contains {
				at++
			}
		}
		if part, ok := t.At(collection, at); ok && e.analyzer.Matches(part, e.value) {
			return true
		}
	}
	return false
}
