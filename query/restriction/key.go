package restriction

import (
	"bytes"
	"slices"

	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// checkKeyValue rejects values that cannot be part of a key. An empty value is valid here; only a whole partition key
// must not be empty. nil means null.
func checkKeyValue(col *schema.Column, v []byte) error {
	if v == nil {
		return invalid.Errorf("Invalid null value in condition for column %s", col.Name)
	}
	return nil
}

// checkPartitionKey rejects a key that is empty or too long. It checks the values before the composite, so that the
// message contains the length of the values alone.
func checkPartitionKey(key []byte, values [][]byte) error {
	if len(key) == 0 {
		return invalid.Errorf("Key may not be empty")
	}
	if err := checkKeyLength(keyLength(values)); err != nil {
		return err
	}
	return checkKeyLength(len(key))
}

// keyLength returns the number of bytes in the values of a key. It excludes the length fields of a composite.
func keyLength(values [][]byte) (n int) {
	for _, v := range values {
		n += len(v)
	}
	return n
}

// checkKeyLength refuses partition keys, and written clusterings, of more than 64 KiB. A read may contain a longer
// clustering, which matches no row. The limit is the 16-bit length of a component in the serialized form, as in
// Cassandra.
func checkKeyLength(n int) error {
	if n > keyBytesMax {
		return invalid.Errorf("Key length of %d is longer than maximum of %d", n, keyBytesMax)
	}
	return nil
}

// PartitionKeys returns the keys that WHERE selects, in the order of their values, without duplicates. It returns at
// most keysMax keys. The set must have a restriction for every column of the partition key, that is KeyRange is
// false. It reserves memory for the keys before it builds them. Paging relies on the order, which is the same for
// each page. An error of the values is returned even if another column's list is empty, except for columns after that
// one.
func (rs *Set) PartitionKeys(s *term.Scope) ([]row.PartitionKey, error) {
	// choices contains a list of values for each column of the key.
	choices := make([][][]byte, len(rs.partition))
	for i, r := range rs.partition {
		var err error
		if choices[i], err = r.keyChoices(s); err != nil {
			return nil, err
		}
		// An empty IN selects nothing.
		if len(choices[i]) == 0 {
			return nil, nil
		}
	}
	// Check the bound after each factor, so that the product cannot overflow.
	product := 1
	for _, c := range choices {
		if product *= len(c); product > keysMax {
			return nil, tooManyValues("partition key", product)
		}
	}
	if err := s.Grow(productBytes(choices, product)); err != nil {
		return nil, err
	}
	// Recurse over the columns. The last column changes fastest and choices are sorted, so the keys are sorted, too.
	keys := make([]row.PartitionKey, 0, product)
	values := make([][]byte, len(choices))
	var build func(i int) error
	build = func(i int) error {
		if i == len(choices) {
			b := row.AppendKeyComponents(nil, values)
			if err := checkPartitionKey(b, values); err != nil {
				return err
			}
			keys = append(keys, row.NewPartitionKey(b))
			return nil
		}
		for _, v := range choices[i] {
			values[i] = v
			if err := build(i + 1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := build(0); err != nil {
		return nil, err
	}
	// token(…) in addition to the key excludes keys; it needs no range scan.
	if rs.token == nil {
		return keys, nil
	}
	tokens, empty, err := rs.Tokens(s)
	if err != nil || empty {
		return nil, err
	}
	return slices.DeleteFunc(keys, func(k row.PartitionKey) bool { return !tokens.Contains(k.Token) }), nil
}

// keyBytes is the memory overhead of a key or clustering in a product, in bytes: the slice headers of the key and its
// components.
const keyBytes = 160

// productBytes returns the memory of all combinations of choices. Each value occurs in product/len(c) combinations, for
// its list c. No list is empty.
func productBytes(choices [][][]byte, product int) int {
	n := keyBytes * product
	for _, c := range choices {
		size := 0
		for _, v := range c {
			size += len(v)
		}
		n += size * (product / len(c))
	}
	return n
}

// orderedCopies is the memory of a clustering as bounds of a slice, as a multiple of the size of its values: the
// ordered form needs up to two bytes for each byte, in a buffer that grows by doubling, and is copied once.
const orderedCopies = 6

// clusteringBytes returns the memory of all combinations of prefixes with values. It is an upper bound: memory is
// reserved before the prefixes are extended.
func clusteringBytes(prefixes [][]byte, values [][][]byte) int {
	n := keyBytes * len(prefixes) * len(values)
	for _, p := range prefixes {
		n += orderedCopies * len(p) * len(values)
	}
	for _, v := range values {
		for _, b := range v {
			n += orderedCopies * len(b) * len(prefixes)
		}
	}
	return n
}

// CheckProduct rejects IN lists whose product exceeds keysMax rows, because every key is read with every slice.
// Cassandra does not bound this product. keys and slices are each bounded, so the product fits an int. One key may have
// all slices that Slices returns: a NOT IN with keysMax values has one more.
func CheckProduct(keys, slices int) error {
	if product := keys * slices; product > keysMax && keys > 1 {
		return tooManyValues("primary key", product)
	}
	return nil
}

// tooManyValues returns the error of Cassandra's guardrail, which is disabled there by default. Cassandra calls the
// restricted columns "partition key" and "clustering key".
func tooManyValues(what string, product int) error {
	return invalid.Errorf("Guardrail in_select_cartesian_product violated: Aborting query because the cartesian "+
		"product of the IN restrictions on %s produces %d values, this exceeds fail threshold of %d.", what, product,
		keysMax)
}

// keyChoices returns the values of one key column, sorted, without duplicates. Null is an error in each element,
// including elements of a marker for the whole list.
func (r *restriction) keyChoices(s *term.Scope) ([][]byte, error) {
	col := r.first()
	if r.kind == kindEqual {
		v, err := r.equal.eval(s, r.columns, nil)
		if err != nil {
			return nil, err
		}
		return v, checkKeyValue(col, v[0])
	}
	in, err := r.evalKeys(s)
	if err != nil {
		return nil, err
	}
	choices := make([][]byte, 0, len(in))
	for _, v := range in {
		if err := checkKeyValue(col, v[0]); err != nil {
			return nil, err
		}
		choices = append(choices, v[0])
	}
	// Sort by value, so that equal keys are adjacent and the order is the same for each page.
	slices.SortFunc(choices, col.Type.Compare)
	return slices.CompactFunc(choices, bytes.Equal), nil
}

// Tokens returns the tokens that WHERE selects. empty means that there are none. A ring.Range excludes Start and
// includes End. The ring wraps: an End of MinToken stands for its end. For example, token(k) > 10 AND token(k) <= 20 is
// the range (10, 20], and token(k) >= 10 AND token(k) < 20 is (9, 19].
func (rs *Set) Tokens(s *term.Scope) (tokens ring.Range, empty bool, err error) {
	tokens = ring.FullRange()
	if rs.token == nil {
		return tokens, false, nil
	}
	lower, upper := rs.token.lower, rs.token.upper
	if rs.token.kind == kindEqual {
		// = is a range whose inclusive bounds are both the token.
		lower = &bound{rs.token.equal, true}
		upper = lower
	}
	if lower != nil {
		t, err := tokenValue(s, lower.value, rs.token.columns)
		if err != nil {
			return tokens, false, err
		}
		// Tokens are integers, so an inclusive lower bound t equals the exclusive bound t - 1. MinToken is not a
		// token of any key.
		if tokens.Start = t; lower.inclusive && t != ring.MinToken {
			tokens.Start--
		}
	}
	if upper != nil {
		t, err := tokenValue(s, upper.value, rs.token.columns)
		if err != nil {
			return tokens, false, err
		}
		// token(k) <= MIN is unbounded, because a range that ends at MinToken wraps.
		if t == ring.MinToken {
			return tokens, tokens.Start == ring.MaxToken, nil // the end of the ring
		}
		if !upper.inclusive {
			t--
		}
		// The bounds exclude each other.
		if t <= tokens.Start {
			return tokens, true, nil
		}
		tokens.End = t
	}
	// Nothing follows the greatest token.
	return tokens, tokens.Start == ring.MaxToken, nil
}

// tokenValue evaluates a bound, which is a bigint. Every bigint is a Murmur3 token.
func tokenValue(s *term.Scope, v *valueTerm, columns []*schema.Column) (ring.Token, error) {
	value, err := v.terms[0].Eval(s)
	if err != nil {
		return 0, err
	}
	// Also an empty bigint is not a token.
	if value.Kind != wire.ValueSet || len(value.Bytes) != 8 {
		if value.Kind == wire.ValueUnset {
			return 0, invalid.Errorf("Invalid unset value for column %s", ColumnNames(columns))
		}
		return 0, invalid.Errorf("Invalid null token value")
	}
	c := wire.NewCursor(value.Bytes)
	return ring.Token(c.Int64()), nil
}

// Slices returns the clusterings that WHERE selects, ascending and disjoint. They are the union of the results for
// every combination of IN values. All rows of a partition are one slice without bounds. The number of slices is at most
// keysMax. For example, with the clustering (a, b):
//
//	a = 1               the slice of the prefix a=1
//	a IN (1, 2), b = 3  the rows (1, 3) and (2, 3)
//	a = 1, b > 3        from after (1, 3) to the end of the prefix a=1
//	b = 3               all rows; b = 3 is a filter
func (rs *Set) Slices(s *term.Scope) ([]row.Slice, error) {
	// Without restrictions there is one slice, and no memory is reserved.
	if len(rs.clustering) == 0 && len(rs.table.Clustering) > 0 {
		return []row.Slice{row.AllRows()}, nil
	}
	// Invariant: prefixes contains the ordered form of all combinations of values for the first position columns.
	prefixes := [][]byte{nil}
	position, longest := 0, 0 // length of the values of the longest clustering, in bytes
	for _, r := range rs.clustering {
		// The other restrictions are filters. A column without a restriction ends the prefix.
		if inFilter(r, position) {
			break
		}
		if r.kind == kindSlice {
			// A range is the last restriction that a slice can express.
			return rs.boundSlices(s, r, prefixes)
		}
		values, err := r.tuples(s)
		if err != nil {
			return nil, err
		}
		if product := len(prefixes) * len(values); product > keysMax {
			return nil, tooManyValues("clustering key", product)
		}
		if err := s.Grow(clusteringBytes(prefixes, values)); err != nil {
			return nil, err
		}
		next := make([][]byte, 0, len(prefixes)*len(values))
		// Check the longest combination before building the product.
		longestValue := 0
		for _, v := range values {
			longestValue = max(longestValue, keyLength(v))
		}
		longest += longestValue
		for _, p := range prefixes {
			for _, v := range values {
				// Clip, because several values extend the same prefix and must not write into its array.
				b := slices.Clip(p)
				for i, col := range r.columns {
					b = col.Type.AppendOrdered(b, v[i], col.Desc)
				}
				next = append(next, b)
			}
		}
		prefixes = next
		// A restriction of several columns covers all of them.
		position = r.last().Position + 1
	}
	complete := position == len(rs.table.Clustering)
	// A write must not exceed the length of a key. A read of a longer clustering finds no row.
	if complete && rs.writes && len(prefixes) > 0 {
		if err := checkKeyLength(longest); err != nil {
			return nil, err
		}
	}
	// All restrictions are filters, so read all rows.
	if position == 0 && !complete {
		return []row.Slice{row.AllRows()}, nil
	}
	// IN may contain duplicates, and DESC columns reverse its order, so the prefixes are sorted as bytes.
	slices.SortFunc(prefixes, bytes.Compare)
	prefixes = slices.CompactFunc(prefixes, bytes.Equal)
	out := make([]row.Slice, len(prefixes))
	for i, p := range prefixes {
		// The whole clustering is one row, a prefix is a slice of rows.
		if complete {
			out[i] = row.ExactRow(p)
		} else {
			out[i] = row.SliceOf(p)
		}
	}
	return out, nil
}

// tuples returns the values of = or IN on clustering columns. Each has a value for every column of r. Null is refused:
// no key column is null.
func (r *restriction) tuples(s *term.Scope) ([][][]byte, error) {
	var values [][][]byte
	if r.kind == kindEqual {
		v, err := r.equal.eval(s, r.columns, nil)
		if err != nil {
			return nil, err
		}
		values = [][][]byte{v}
	} else {
		var err error
		if values, err = r.evalKeys(s); err != nil {
			return nil, err
		}
	}
	for _, v := range values {
		for i, col := range r.columns {
			switch {
			// The message for a single column is below.
			case v[i] != nil || !r.multi:
			case r.kind == kindIn:
				return nil, invalid.Errorf("Invalid null value in condition for columns: [%s]", ColumnNames(r.columns))
			default:
				return nil, invalid.Errorf("Invalid null value for column %s", col.Name)
			}
			if err := checkKeyValue(col, v[i]); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}
