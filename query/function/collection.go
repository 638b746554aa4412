package function

import (
	"cqld/query/invalid"
	"cqld/types"
	"cqld/types/similarity"
)

// addCollections adds the functions on collections. They are factories, because their types depend on the argument.
// They accept frozen collections and multi-cell collections, which the caller serializes first.
func (l *Library) addCollections() {
	l.makeOf("map_keys", isMap, "a map", "map", func(name string, t *types.Type) *Function {
		returns := types.NewSet(t.Elems()[0], false)
		return partsFunction(name, t, returns, func(parts [][]byte) [][]byte { return everySecond(parts, 0) })
	})
	l.makeOf("map_values", isMap, "a map", "map", func(name string, t *types.Type) *Function {
		returns := types.NewList(t.Elems()[1], false)
		return partsFunction(name, t, returns, func(parts [][]byte) [][]byte { return everySecond(parts, 1) })
	})
	l.makeOf("collection_count", isCollection, "a collection", "collection",
		func(name string, t *types.Type) *Function {
			// A count of cells or elements; null, which is also an empty multi-cell collection, gives null.
			return &Function{Name: name, Args: []*types.Type{t}, Returns: native(types.Int),
				Eval: strict(func(a [][]byte) ([]byte, error) {
					return native(types.Int).AppendInt64(nil, int64(t.Len(a[0]))), nil
				})}
		})
	// These aggregate the elements of a set or list. For maps, use map_keys or map_values.
	for name, sign := range map[string]int{"collection_min": -1, "collection_max": 1} {
		l.makeOf(name, isSetOrList, "a set or list", "numeric_set_or_list", func(name string, t *types.Type) *Function {
			return accumulate(name, t, t.Elems()[0], &extreme{t: t.Elems()[0], sign: sign})
		})
	}
	for name, average := range map[string]bool{"collection_sum": false, "collection_avg": true} {
		l.makeOf(name, isNumericSetOrList, "a numeric set/list", "numeric_set_or_list",
			func(name string, t *types.Type) *Function {
				// The result has the type of the elements, and may overflow as sum does.
				e := t.Elems()[0]
				return accumulate(name, t, e, newSum(e, e, average))
			})
	}
}

// isCollection and the next three functions report whether a function accepts a type.
func isCollection(t *types.Type) bool { return t.Kind().IsCollection() }

func isMap(t *types.Type) bool       { return t.Kind() == types.Map }
func isSetOrList(t *types.Type) bool { return t.Kind() == types.Set || t.Kind() == types.List }
func isNumericSetOrList(t *types.Type) bool {
	return isSetOrList(t) && t.Elems()[0].Kind().IsNumber()
}

// makeOf adds a function of one collection for which fits returns true. what names the accepted kind of collection in
// messages, and parameter in signatures, with Cassandra's words. The argument is not converted: f receives its actual
// type.
func (l *Library) makeOf(name string, fits func(*types.Type) bool, what, parameter string,
	f func(string, *types.Type) *Function) {
	l.make(name, func(name string, c Call) (*Function, error) {
		// parameter is Cassandra's word for the kind of argument, not a CQL type.
		if len(c.Args) != 1 {
			return nil, invalid.Errorf("Invalid number of arguments for function system.%s(%s)", name, parameter)
		}
		t := c.Args[0].Type()
		// The argument is an empty literal or a bind marker.
		if t == nil {
			return nil, cannotInfer(c.Args[0], name+"("+parameter+")")
		}
		if !fits(t) {
			return nil, invalid.Errorf("Function system.%s requires %s argument, but found argument %s of type %s",
				name, what, c.Args[0], t)
		}
		return f(name, t), nil
	})
}

// partsFunction returns a function whose result f selects from the parts of a collection (see parts).
func partsFunction(name string, t, returns *types.Type, f func([][]byte) [][]byte) *Function {
	return &Function{Name: name, Args: []*types.Type{t}, Returns: returns,
		Eval: strict(func(a [][]byte) ([]byte, error) {
			return returns.AppendParts(nil, f(parts(t, a[0])))
		})}
}

// parts returns the elements of a collection, or the keys and values of a map alternately. They share the memory of v.
func parts(t *types.Type, v []byte) (out [][]byte) {
	for p := t.Parts(v); p.Next(); {
		out = append(out, p.Bytes())
	}
	return out
}

// everySecond returns the keys (from 0) or the values (from 1) in the parts of a map.
func everySecond(parts [][]byte, from int) [][]byte {
	var out [][]byte
	for i := from; i < len(parts); i += 2 {
		out = append(out, parts[i])
	}
	return out
}

// accumulate executes an aggregation over the elements of a collection. a is a prototype: each call has a copy, as
// calls are concurrent. An empty collection gives the result of an aggregate without rows.
func accumulate(name string, t, returns *types.Type, a Accumulator) *Function {
	return &Function{Name: name, Args: []*types.Type{t}, Returns: returns,
		Eval: strict(func(args [][]byte) ([]byte, error) {
			var x Accumulator
			// Accumulators have no Clone; these two are rebuilt from their parameters.
			switch a := a.(type) {
			case *extreme:
				x = &extreme{t: a.t, sign: a.sign}
			case *sum:
				x = newSum(a.of, a.returns, a.average)
			}
			for p := t.Parts(args[0]); p.Next(); {
				if err := x.Add([][]byte{p.Bytes()}); err != nil {
					return nil, err
				}
			}
			return x.Result()
		})}
}

// addVector adds the similarity functions. They exist for vectors of floats only; the dimension is part of the type.
func (l *Library) addVector() {
	for name, measure := range map[string]similarity.Function{"similarity_cosine": similarity.Cosine,
		"similarity_euclidean": similarity.Euclidean, "similarity_dot_product": similarity.DotProduct} {
		l.make(name, func(name string, c Call) (*Function, error) {
			if len(c.Args) != 2 {
				return nil, invalid.Errorf("Invalid number of arguments for function system.%s(vector<float, n>, "+
					"vector<float, n>)", name)
			}
			t, err := floatVector(name, c.Args[0], c.Args[1])
			if err != nil {
				return nil, err
			}
			return &Function{Name: name, Args: []*types.Type{t, t}, Returns: native(types.Float),
				Eval: strict(func(a [][]byte) ([]byte, error) { return similar(name, measure, a[0], a[1]) })}, nil
		})
	}
}

// floatVector returns the type of the two arguments of a function on vectors. floatVector treats a list literal as a
// vector with as many dimensions as elements, because the literal itself has the type list. At least one argument
// must have a type.
func floatVector(name string, args ...Arg) (*types.Type, error) {
	given := make([]*types.Type, 2)
	for i, a := range args {
		switch n := a.Elements(); {
		// A list literal without elements.
		case n == 0:
			return nil, invalid.Errorf("vectors may only have positive dimensions; given 0")
		case n > 0:
			given[i] = types.NewVector(native(types.Float), n)
		default:
			given[i] = a.Type()
		}
	}
	if given[0] == nil && given[1] == nil {
		return nil, cannotInfer(args[0], name+"(vector<float, n>, vector<float, n>)")
	}
	// The types of both arguments are checked, in their order, before their dimensions.
	for i, t := range given {
		if t != nil && (t.Kind() != types.Vector || t.Elems()[0].Kind() != types.Float) {
			return nil, invalid.Errorf("Function system.%s requires a float vector argument, but found argument %s of "+
				"type %s", name, args[i], t)
		}
	}
	switch {
	case given[0] == nil:
		return given[1], nil
	case given[1] != nil && given[0].Dimensions() != given[1].Dimensions():
		return nil, invalid.Errorf("All arguments must have the same vector dimensions")
	}
	return given[0], nil
}

// cannotInfer returns the error for an argument whose type is unknown in a function with that signature. The message is
// Cassandra's, with the signature in Cassandra's words.
func cannotInfer(a Arg, signature string) error {
	return invalid.Errorf("Cannot infer type of argument %s in call to function system.%s: use type casts to "+
		"disambiguate", a, signature)
}

// similar returns the score of two vectors. It compares the lengths again, because the values may not have the
// declared dimension.
func similar(name string, f similarity.Function, a, b []byte) ([]byte, error) {
	// Values in wire form have four bytes for each dimension.
	if len(a) != len(b) {
		return nil, invalid.Errorf("All arguments must have the same vector dimensions")
	}
	score, ok := f.Score(similarity.Decode(nil, a), similarity.Decode(nil, b))
	if !ok {
		return nil, invalid.Errorf("Function system.%s doesn't support all-zero vectors.", name)
	}
	return native(types.Float).AppendFloat64(nil, float64(score)), nil
}
