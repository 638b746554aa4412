package types

import (
	"slices"
	"strconv"
	"strings"
)

// Kind is the outermost constructor of a type. The zero Kind is invalid.
type Kind uint8

// The native scalar kinds come first, in alphabetical order; then the kinds that have parts. Code compares kinds with
// List and Varint, and relies on this order.
const (
	_ Kind = iota
	Ascii
	Bigint
	Blob
	Boolean
	Counter
	Date
	Decimal
	Double
	Duration
	Float
	Inet
	Int
	Smallint
	Text // varchar is the same type
	Time
	Timestamp
	Timeuuid
	Tinyint
	UUID
	Varint
	List
	Set
	Map
	Tuple
	UDT
	Vector
	Custom
)

// Type is a CQL data type. It is immutable and shared by pointer. Values of all types are in their wire form (native
// protocol v5 §6), which is also the form stored in cells. Equal types may have different pointers: Equal compares
// them.
type Type struct {
	kind   Kind
	frozen bool
	// elems is shared between types and never modified.
	elems    []*Type // list, set, vector: 1; map: key, value; tuple and UDT: one per field
	keyspace string  // UDT
	name     string  // UDT
	// fields contains the names of a UDT's fields, in the order of elems.
	fields []string
	// fieldAt maps field names to positions; nil if there are few fields.
	fieldAt map[string]int
	// dims is the number of dimensions of a vector.
	dims int
	// class is the class name of a custom type as written, with or without its package.
	class  string      // custom
	legacy *legacyType // custom, of a known class
	// text is computed by the constructor, because messages, signatures and Equal use it often.
	text string // the result of String
	// whenFrozen is the cached result of Freeze for a UDT that is not frozen, because every use of the type freezes
	// it.
	whenFrozen *Type
}

// Kind returns the outermost kind.
func (t *Type) Kind() Kind { return t.kind }

// Elems returns the types of the parts: element (list, set, vector), key and value (map), fields (tuple, UDT). The
// caller must not modify the slice.
func (t *Type) Elems() []*Type { return t.elems }

// Frozen reports whether a type with parts is stored as one value; otherwise each part has its own cell. Tuples and
// vectors are always frozen. For scalars, the result is false and has no meaning.
func (t *Type) Frozen() bool { return t.frozen }

// MultiCell reports whether a column of this type stores one cell for each element or field. Only the outermost type
// matters: parts are always frozen.
func (t *Type) MultiCell() bool {
	switch t.kind {
	case List, Set, Map, UDT:
		return !t.frozen
	}
	return false
}

// HasDuration reports whether t is duration, or contains it. Such values have no order, so that they cannot be in keys
// or be compared.
func (t *Type) HasDuration() bool {
	// hasDuration accepts a nil legacyType.
	return t.kind == Duration || t.legacy.hasDuration() || slices.ContainsFunc(t.Elems(), (*Type).HasDuration)
}

// IsCollection reports whether t is a list, set or map, frozen or not.
func (k Kind) IsCollection() bool { return k == List || k == Set || k == Map }

// UDTKeyspace returns the keyspace of a user-defined type, otherwise "".
func (t *Type) UDTKeyspace() string { return t.keyspace }

// UDTName returns the name of a user-defined type, otherwise "".
func (t *Type) UDTName() string { return t.name }

// FieldNames returns the field names of a user-defined type, in order. Callers must not modify the slice.
func (t *Type) FieldNames() []string { return t.fields }

// Dimensions returns the number of elements of a vector, otherwise 0.
func (t *Type) Dimensions() int { return t.dims }

// CustomClass returns the class name of a custom type, otherwise "".
func (t *Type) CustomClass() string { return t.class }

// String returns the type in CQL's syntax: "map<text, frozen<list<int>>>". Names of user-defined types have no
// keyspace.
//
//	varchar                        text
//	tuple<int, text>               frozen<tuple<int, text>>
//	list<list<int>> in a column    list<frozen<list<int>>>
//	vector<float, 3>               vector<float, 3>
//	the user-defined type "U"      "U"
//	an unknown class               'com.example.T'
func (t *Type) String() string { return t.text }

// Equal reports whether both are the same type, including whether they are frozen. User-defined types are equal if
// their names and fields are. nil equals nil only.
func (t *Type) Equal(o *Type) bool {
	if t == o {
		return true
	}
	if t == nil || o == nil {
		return false
	}
	// The text contains everything but the keyspace and the fields.
	// Different types usually have different texts, so their parts are rarely compared.
	return t.kind == o.kind && t.text == o.text && t.keyspace == o.keyspace && sameFields(t, o)
}

// sameFields reports whether the parts of both types are equal.
func sameFields(t, o *Type) bool {
	if len(t.elems) != len(o.elems) || len(t.fields) != len(o.fields) {
		return false
	}
	// The text form of a type does not contain the definitions of user-defined types, so the parts are compared.
	for i := range t.elems {
		if !t.elems[i].Equal(o.elems[i]) {
			return false
		}
	}
	for i := range t.fields {
		if t.fields[i] != o.fields[i] {
			return false
		}
	}
	return true
}

// Native returns the native scalar type of kind k. It panics for a kind that has parts. It always returns the same
// pointer.
func Native(k Kind) *Type { return &natives[k] }

// NativeByName returns the native type with a CQL name in lower case ("varchar" is text). ok is false for other names.
func NativeByName(name string) (*Type, bool) {
	if name == "varchar" {
		return Native(Text), true
	}
	for k := Ascii; k <= Varint; k++ {
		if natives[k].text == name {
			return Native(k), true
		}
	}
	return nil, false
}

// natives is read-only after its initialization.
var natives = [Varint + 1]Type{
	Ascii:     {kind: Ascii, text: "ascii"},
	Bigint:    {kind: Bigint, text: "bigint"},
	Blob:      {kind: Blob, text: "blob"},
	Boolean:   {kind: Boolean, text: "boolean"},
	Counter:   {kind: Counter, text: "counter"},
	Date:      {kind: Date, text: "date"},
	Decimal:   {kind: Decimal, text: "decimal"},
	Double:    {kind: Double, text: "double"},
	Duration:  {kind: Duration, text: "duration"},
	Float:     {kind: Float, text: "float"},
	Inet:      {kind: Inet, text: "inet"},
	Int:       {kind: Int, text: "int"},
	Smallint:  {kind: Smallint, text: "smallint"},
	Text:      {kind: Text, text: "text"},
	Time:      {kind: Time, text: "time"},
	Timestamp: {kind: Timestamp, text: "timestamp"},
	Timeuuid:  {kind: Timeuuid, text: "timeuuid"},
	Tinyint:   {kind: Tinyint, text: "tinyint"},
	UUID:      {kind: UUID, text: "uuid"},
	Varint:    {kind: Varint, text: "varint"},
}

// NewList returns list<elem>, frozen or with one cell per element.
func NewList(elem *Type, frozen bool) *Type { return newParts(List, "list", frozen, elem) }

// NewSet returns set<elem>, frozen or with one cell per element.
func NewSet(elem *Type, frozen bool) *Type { return newParts(Set, "set", frozen, elem) }

// NewMap returns map<key, value>, frozen or with one cell per entry.
func NewMap(key, value *Type, frozen bool) *Type { return newParts(Map, "map", frozen, key, value) }

// NewTuple returns tuple<elems…>. Tuples are always frozen, and CQL prints them as frozen<tuple<…>>.
func NewTuple(elems ...*Type) *Type { return newParts(Tuple, "tuple", true, elems...) }

// NewVector returns vector<elem, dims>. Vectors are always frozen, but CQL prints them without frozen. An element is
// stored as one value whether or not its type is frozen. As in Cassandra, the type keeps the declaration, which drivers
// see in the metadata.
func NewVector(elem *Type, dims int) *Type {
	return &Type{kind: Vector, frozen: true, elems: []*Type{elem}, dims: dims,
		text: "vector<" + elem.text + ", " + strconv.Itoa(dims) + ">"}
}

// NewUDT returns the user-defined type keyspace.name with the given fields, which are frozen if the type is. It keeps
// the slices.
func NewUDT(keyspace, name string, fields []string, elems []*Type, frozen bool) *Type {
	text := QuoteName(name)
	// Fields of a type that is not frozen keep their declaration.
	if frozen {
		elems = frozenParts(elems)
		text = "frozen<" + text + ">"
	}
	t := &Type{kind: UDT, frozen: frozen, keyspace: keyspace, name: name, fields: fields, elems: elems, text: text}
	// Compute the frozen type once, because every use of the type freezes it.
	if !frozen {
		t.whenFrozen = NewUDT(keyspace, name, fields, elems, true)
		t.fieldAt = t.whenFrozen.fieldAt
	} else {
		t.fieldAt = newFieldIndex(fields)
	}
	return t
}

// NewCustom returns a type known only by its class name. Its values are bytes.
func NewCustom(class string) *Type {
	return &Type{kind: Custom, class: class, text: "'" + strings.ReplaceAll(class, "'", "''") + "'"}
}

// Empty returns the type whose only value has no bytes. CQL cannot name it; the hidden column of some tables has it:
// tables with compact storage whose rows have nothing besides their key.
func Empty() *Type { return &Type{kind: Custom, class: marshalPackage + "EmptyType", text: "empty"} }

// IsEmpty reports whether t is Empty.
func (t *Type) IsEmpty() bool { return t.kind == Custom && t.class == marshalPackage+"EmptyType" }

// Freeze returns t with itself and all its parts frozen. The element types of vectors remain as they were declared.
// Scalars are returned as they are.
//
//	list<set<int>>   is list<frozen<set<int>>> already
//	map<int, text>   becomes frozen<map<int, text>>
//	int, tuple<int>  stay
func (t *Type) Freeze() *Type {
	if t.frozen {
		return t
	}
	switch t.kind {
	case List, Set:
		return newParts(t.kind, kindWord(t.kind), true, t.elems[0])
	case Map:
		return NewMap(t.elems[0], t.elems[1], true)
	// Shared by all uses of the type.
	case UDT:
		return t.whenFrozen
	}
	return t
}

// newParts freezes the parts, because a part is always stored as one value and Cassandra prints it as frozen. word is
// the name of the type in CQL.
func newParts(k Kind, word string, frozen bool, elems ...*Type) *Type {
	// Do not modify elems, which belongs to the caller.
	parts := frozenParts(elems)
	var b strings.Builder
	if frozen {
		b.WriteString("frozen<")
	}
	b.WriteString(word)
	b.WriteByte('<')
	for i, e := range parts {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(e.text)
	}
	b.WriteByte('>')
	if frozen {
		b.WriteByte('>')
	}
	return &Type{kind: k, frozen: frozen, elems: parts, text: b.String()}
}

// frozenParts returns frozen types in a new slice.
func frozenParts(elems []*Type) []*Type {
	parts := make([]*Type, len(elems))
	for i, e := range elems {
		parts[i] = e.Freeze()
	}
	return parts
}

// kindWord returns the name of a collection's kind in CQL.
func kindWord(k Kind) string {
	switch k {
	case List:
		return "list"
	case Set:
		return "set"
	}
	return "map"
}
