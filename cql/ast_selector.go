package cql

// Selector is an expression that SELECT computes for a row, in which columns may be named. The sum type is closed:
// *ColumnSelector, *TermSelector, *CountAll, *FunctionSelector, *CastSelector, *TypeHintSelector, *MetadataSelector,
// *FieldSelector, *ElementSelector, *SliceSelector, *ListSelector, *SetSelector, *MapSelector, *UDTSelector,
// *TupleSelector, *ArithmeticSelector, *NegateSelector. The types correspond to the types of Term, and additionally
// may contain columns.
type Selector interface{ selector() }

// ColumnSelector is a column or, as an argument, any bare name.
type ColumnSelector struct{ Column string }

// TermSelector is a literal or a bind marker: Term is *Literal or *BindMarker.
type TermSelector struct{ Term Term }

// CountAll is COUNT(*), or COUNT of a constant, which means the same. It has no argument in the AST. Constants other
// than null become CountAll; COUNT(null) stays a call.
type CountAll struct{}

// FunctionSelector is f(a, b). Aggregates are functions here; package query distinguishes them. TOKEN is a function
// too, with the name "token".
type FunctionSelector struct {
	Name QualifiedName
	Args []Selector
}

// CastSelector is CAST(x AS type).
type CastSelector struct {
	Value Selector
	Type  TypeExpr
}

// TypeHintSelector is (type) x. It selects among overloaded functions, as TypeHint does.
type TypeHintSelector struct {
	Type  TypeExpr
	Value Selector
}

// Metadata is a property of a cell besides its value.
type Metadata uint8

// The kinds of metadata that a selector can request.
const (
	MetadataInvalid Metadata = iota
	WriteTime
	MaxWriteTime
	TTL
)

// String returns the name of the pseudo-function.
func (m Metadata) String() string {
	//exhaustive:enforce
	switch m {
	case WriteTime:
		return "writetime"
	case MaxWriteTime:
		return "maxwritetime"
	case TTL:
		return "ttl"
	case MetadataInvalid:
	}
	return "?"
}

// MetadataSelector is WRITETIME(x), MAXWRITETIME(x) or TTL(x), where Of is a
// *ColumnSelector, or a *FieldSelector, *ElementSelector or *SliceSelector of one.
type MetadataSelector struct {
	Kind Metadata
	// Of is the column, or the part of it, whose cells provide the metadata.
	Of Selector
}

// FieldSelector is x.field.
type FieldSelector struct {
	Of    Selector
	Field string
}

// ElementSelector is x[key]. Key is a constant or a marker: it names no column.
type ElementSelector struct {
	Of Selector
	// A constant, a marker or a call: it is the same for all rows.
	Key Term
}

// SliceSelector is x[from..to]; From or To may be nil, not both.
type SliceSelector struct {
	Of       Selector
	From, To Term
}

// ListSelector is [a, b] of selectors. Like ListLiteral it may be a vector.
type ListSelector struct{ Elements []Selector }

// SetSelector is {a, b} of selectors. Without elements it may also be an empty map.
type SetSelector struct{ Elements []Selector }

// MapSelector is {k: v, …} of selectors. If all keys are bare names, it may also be a user-defined type, and is then
// parsed as a UDTSelector.
type MapSelector struct{ Entries []MapSelectorEntry }

// MapSelectorEntry is one k: v.
type MapSelectorEntry struct{ Key, Value Selector }

// UDTSelector is {field: x, …} where every key is a bare name. It may also be a map with columns as keys: only the
// expected type determines which.
type UDTSelector struct{ Fields []UDTSelectorField }

// UDTSelectorField is one field: x.
type UDTSelectorField struct {
	Name  string
	Value Selector
}

// TupleSelector is (a, b), or with one element a selector in parentheses.
type TupleSelector struct{ Elements []Selector }

// ArithmeticSelector is left op right.
type ArithmeticSelector struct {
	Operator    Arithmetic
	Left, Right Selector
}

// NegateSelector is -x.
type NegateSelector struct{ Value Selector }

func (*ColumnSelector) selector()     {}
func (*TermSelector) selector()       {}
func (*CountAll) selector()           {}
func (*FunctionSelector) selector()   {}
func (*CastSelector) selector()       {}
func (*TypeHintSelector) selector()   {}
func (*MetadataSelector) selector()   {}
func (*FieldSelector) selector()      {}
func (*ElementSelector) selector()    {}
func (*SliceSelector) selector()      {}
func (*ListSelector) selector()       {}
func (*SetSelector) selector()        {}
func (*MapSelector) selector()        {}
func (*UDTSelector) selector()        {}
func (*TupleSelector) selector()      {}
func (*ArithmeticSelector) selector() {}
func (*NegateSelector) selector()     {}
