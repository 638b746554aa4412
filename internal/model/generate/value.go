package generate

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Value is a value as a literal and in the encoding of the native protocol. Both forms must be stored as the same
// bytes; the comparison of literals with bound values relies on it. The literal of the smallint 1 is 1, and its bytes
// are 00 01.
type Value struct {
	Literal string
	Bytes   []byte // nil is null
}

// null returns the null value.
func null() Value { return Value{Literal: "null"} }

// Type is a CQL type. Elems are the types of its elements or fields. The Name is CQL, with frozen where it applies,
// such as frozen<map<text, int>>.
type Type struct {
	Name   string
	Elems  []*Type
	Fields []string // of a user-defined type
	Multi  bool     // not frozen: each element is a separate cell
}

// kind returns the name of the type without parameters and frozen. The kind of a frozen type is the kind of the type
// inside; a user-defined type is "udt".
func (t *Type) kind() string {
	if t.Fields != nil {
		return "udt"
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(t.Name, "frozen<"), "<")
	return strings.TrimSuffix(name, ">")
}

// native returns a type without elements.
func native(name string) *Type { return &Type{Name: name} }

// collection returns a list, set or map of elems. It is used for tuples as well.
func collection(kind string, multi bool, elems ...*Type) *Type {
	names := make([]string, len(elems))
	for i, e := range elems {
		names[i] = e.Name
	}
	t := &Type{Name: kind + "<" + strings.Join(names, ", ") + ">", Elems: elems, Multi: multi}
	// Tuples are always frozen, and are named without it.
	if !multi && kind != "tuple" {
		t.Name = "frozen<" + t.Name + ">"
	}
	return t
}

// scalars returns the names of the native types of columns.
func scalars() []string {
	// int and text occur twice, so that they are chosen more often.
	return []string{"int", "int", "text", "text", "bigint", "boolean", "double", "varint", "decimal", "timestamp",
		"blob", "smallint", "date"}
}

// value generates a value of t from a small domain, so that equal values occur. An error in equality, in the order of
// values, or in the removal of duplicates shows only if values repeat.
func (g *Generator) value(t *Type) Value {
	v := g.plainValue(t)
	if g.Hints && t.kind() != "counter" && g.oneIn(10) {
		// As a tuple, a constant in hexadecimal digits is stored by Cassandra, and refused by cqld.
		if hint := g.hint(t); !strings.HasPrefix(v.Literal, "0x") || !strings.Contains(hint, "tuple<") {
			v.Literal = "(" + hint + ")" + v.Literal
		}
	}
	return v
}

// hint returns the type in a type hint for a value of t. Mostly it is t, otherwise the type of another column, or t
// with or without frozen. A hint with another type is refused, or accepted if the types are assignable, such as frozen
// and not frozen.
func (g *Generator) hint(t *Type) string {
	switch {
	case g.oneIn(4):
		return g.any(g.Columns).Type.Name
	case g.oneIn(3):
		if inner, frozen := strings.CutPrefix(t.Name, "frozen<"); frozen {
			return strings.TrimSuffix(inner, ">")
		}
		if len(t.Elems) > 0 {
			return "frozen<" + t.Name + ">"
		}
	}
	return t.Name
}

// plainValue is value without hints. Its cases are the kinds of Type.kind; vector is a list of floats with a fixed
// length.
func (g *Generator) plainValue(t *Type) Value {
	switch kind := t.kind(); kind {
	case "list", "set", "map":
		return g.collectionValue(t, kind)
	case "tuple", "udt":
		return g.tupleValue(t)
	case "vector":
		return g.vectorValue(t)
	default:
		return g.scalar(kind)
	}
}

// scalar generates one of six values of a native type, -1 to 4 or what stands for them. It panics for a type that
// scalars does not name, apart from counter. The values are:
//
//	int, bigint, smallint, varint    -1 0 1 2 3 4
//	double                           -0.5 0.0 0.5 1.0 1.5 2.0
//	decimal                          0.1 0 0.1 0.2 0.3 0.4
//	timestamp                        2020-09-13T12:26:39Z to 12:26:44Z
//	date                             2019-04-13 to 2019-04-18
func (g *Generator) scalar(kind string) Value {
	n := int64(g.r.IntN(6) - 1)
	text := fmt.Sprint(n)
	switch kind {
	case "int":
		return Value{text, binary.BigEndian.AppendUint32(nil, uint32(n))}
	case "bigint", "counter":
		return Value{text, binary.BigEndian.AppendUint64(nil, uint64(n))}
	case "smallint":
		return Value{text, binary.BigEndian.AppendUint16(nil, uint16(n))}
	case "text":
		// An empty text, one of two bytes for one letter, and a quote that literals double.
		s := []string{"", "a", "b", "ab", "ä", "it's"}[n+1]
		return Value{"'" + strings.ReplaceAll(s, "'", "''") + "'", []byte(s)}
	case "boolean":
		// Of six numbers, 2, 3 and 4 are true.
		return Value{fmt.Sprint(n > 1), []byte{byte(b2i(n > 1))}}
	case "double":
		f := float64(n) / 2
		return Value{fmt.Sprintf("%.1f", f), binary.BigEndian.AppendUint64(nil, math.Float64bits(f))}
	case "varint":
		return Value{text, varint(n)}
	case "decimal":
		if n == 0 { // cqld returns 0.0 in a key as 0
			return Value{"0", make([]byte, 5)}
		}
		return Value{fmt.Sprintf("%d.%d", n/10, abs(n%10)), decimal(n)}
	case "timestamp":
		// Milliseconds since 1970, in September 2020, which every format of a timestamp can express.
		ms := 1_600_000_000_000 + n*1000
		return Value{fmt.Sprint(ms), binary.BigEndian.AppendUint64(nil, uint64(ms))}
	case "date":
		// Days; 2^31 is 1970-01-01.
		d := uint32(1<<31 + 18000 + n)
		return Value{fmt.Sprint(d), binary.BigEndian.AppendUint32(nil, d)}
	// 0, 2, 4 … 10 bytes, the last of each pair above 0x7f to show signed comparisons.
	case "blob":
		b := []byte(strings.Repeat("\x01\xff", int(n+1)))
		return Value{fmt.Sprintf("0x%x", b), b}
	}
	panic("generate: no values of type " + kind)
}

// b2i returns 1 for true and 0 for false.
func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func abs(n int64) int64 { return max(n, -n) }

// varint returns the two's complement of n in as few bytes as possible.
func varint(n int64) []byte {
	b := big.NewInt(n)
	if n < 0 {
		// The only negative value is -1, one byte.
		return new(big.Int).Add(b, big.NewInt(256)).Bytes()
	}
	return append([]byte{0}, b.Bytes()...)[b2i(n > 0 && n < 128):]
}

// decimal returns n tenths. The literal of -1 would lose its sign, so -1 stands for -0.1 as 0.1 does for 1.
func decimal(n int64) []byte {
	return append(binary.BigEndian.AppendUint32(nil, 1), varint(abs(n))...)
}

// appendBytes appends [bytes] of the protocol: a length of four bytes, -1 for null. It is also the form of fields of
// tuples and of elements of collections.
func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.BigEndian.AppendUint32(dst, math.MaxUint32)
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(b))), b...)
}

// collectionValue generates a list, set or map of up to three elements. Sets and maps are in random order, with
// duplicates. The servers must sort what they receive: a set is stored in the order of its elements' type.
//
// As a set<int>, {1, 0} is:
//
//	00 00 00 02    00 00 00 04  00 00 00 01    00 00 00 04  00 00 00 00
//	the count      a length     1              a length     0
func (g *Generator) collectionValue(t *Type, kind string) Value {
	n := g.r.IntN(4)
	if kind == "map" && n == 0 && !t.Multi {
		n = 1 // {} is a set if the type is not known
	}
	// The encoding of v3 and later: counts and lengths of four bytes.
	b := binary.BigEndian.AppendUint32(nil, uint32(n))
	var elems []string
	var keys []string
	for range n {
		e := g.value(t.Elems[0])
		if kind == "map" && slices.Contains(keys, string(e.Bytes)) {
			// Of two entries with the same key, the order decides which one counts. Cassandra does not keep the order,
			// so a literal and a bound value might differ.
			e = g.value(t.Elems[0])
			if slices.Contains(keys, string(e.Bytes)) {
				return g.collectionValue(t, kind)
			}
		}
		keys = append(keys, string(e.Bytes))
		b = appendBytes(b, e.Bytes)
		if kind == "map" {
			v := g.value(t.Elems[1])
			b = appendBytes(b, v.Bytes)
			e.Literal += ": " + v.Literal
		}
		elems = append(elems, e.Literal)
	}
	open, end := "{", "}"
	if kind == "list" {
		open, end = "[", "]"
	}
	return Value{open + strings.Join(elems, ", ") + end, b}
}

// tupleValue generates a tuple or a value of a user-defined type. Fields may be null. Each field is null with a
// probability of one sixth. Trailing fields are always present.
func (g *Generator) tupleValue(t *Type) Value {
	var b []byte
	var parts []string
	// The encoding of a user-defined type and of a tuple is the same.
	asTuple := t.Fields == nil || g.Hints && g.oneIn(4)
	for i, e := range t.Elems {
		v := g.value(e)
		if g.oneIn(6) {
			v = null()
		}
		b = appendBytes(b, v.Bytes)
		if !asTuple {
			v.Literal = t.Fields[i] + ": " + v.Literal
		}
		parts = append(parts, v.Literal)
	}
	open, end := "(", ")"
	if !asTuple {
		open, end = "{", "}"
	}
	return Value{open + strings.Join(parts, ", ") + end, b}
}

// vectorValue generates a vector of floats, which are hardly ever equal to others. Its elements have a fixed size, so
// the encoding has neither a count nor lengths.
func (g *Generator) vectorValue(t *Type) Value {
	var v Value
	var parts []string
	for range t.Elems {
		n := 1 + g.r.IntN(999)
		parts = append(parts, fmt.Sprintf("0.%03d", n))
		// Parsed from the literal, so that both forms are the same float.
		f, err := strconv.ParseFloat(parts[len(parts)-1], 32)
		if err != nil {
			panic(err)
		}
		v.Bytes = binary.BigEndian.AppendUint32(v.Bytes, math.Float32bits(float32(f)))
	}
	v.Literal = "[" + strings.Join(parts, ", ") + "]"
	return v
}
