package restriction

import (
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/schema"
)

// evalFilterIn returns the values of an IN that filters rows. As in Cassandra, unset values are omitted from a list
// for a single column. r is not changed.
func (r *restriction) evalFilterIn(s *term.Scope) ([][][]byte, error) {
	if r.multi || r.inMarker != nil {
		return r.evalIn(s)
	}
	set := *r
	set.in = nil
	for _, v := range r.in {
		x, err := v.terms[0].Eval(s)
		if err != nil {
			return nil, err
		}
		if x.Kind != wire.ValueUnset {
			set.in = append(set.in, v)
		}
	}
	return set.evalIn(s)
}

// evalKeys is evalIn for a list that selects keys or rows. It checks the number of values before it expands the list.
func (r *restriction) evalKeys(s *term.Scope) ([][][]byte, error) {
	n := len(r.in)
	if r.inMarker != nil {
		value, err := r.inMarker.Eval(s)
		if err != nil {
			return nil, err
		}
		n = term.CountElements(value.Bytes)
	}
	if n > keysMax {
		what := "clustering key"
		if r.first().Kind == schema.PartitionKey {
			what = "partition key"
		}
		return nil, tooManyValues(what, n)
	}
	return r.evalIn(s)
}

// listBytes is the memory overhead of a value of IN, in bytes: slice headers in the list, of the value and of its
// columns.
const listBytes = 72

// evalIn returns the values of IN, each with as many elements as there are columns. Elements of a bound tuple that are
// missing are nil. It reserves the memory of the list before it is expanded.
func (r *restriction) evalIn(s *term.Scope) ([][][]byte, error) {
	if r.inMarker == nil {
		if err := s.Grow(len(r.in) * listBytes * len(r.columns)); err != nil {
			return nil, err
		}
		out := make([][][]byte, len(r.in))
		for i, v := range r.in {
			var err error
			if out[i], err = v.eval(s, r.columns, nil); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	value, err := r.inMarker.Eval(s)
	if err != nil {
		return nil, err
	}
	switch value.Kind {
	case wire.ValueUnset:
		if r.multi {
			return nil, invalid.Errorf("Invalid unset value for in%s", tupleName(r.columns))
		}
		return nil, invalid.Errorf("Invalid unset value for column %s", r.first().Name)
	case wire.ValueNull:
		if r.multi {
			return nil, invalid.Errorf("Invalid null value for IN restriction")
		}
		return nil, invalid.Errorf("Invalid null value for column %s", r.first().Name)
	}
	if err := s.Grow(term.CountElements(value.Bytes) * listBytes * len(r.columns)); err != nil {
		return nil, err
	}
	parts := term.SplitCollection(value.Bytes, 1)
	out := make([][][]byte, len(parts))
	for i, b := range parts {
		if r.multi {
			out[i] = term.SplitFields(b, r.inMarker.Type.Elems()[0])
		} else {
			// Limit the capacity, so that an append does not overwrite the next value.
			out[i] = parts[i : i+1 : i+1]
		}
	}
	return out, nil
}
