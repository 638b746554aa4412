package cql

// Term is a value in a place where no column may be named: in VALUES, on the right of a relation, in SET. The sum type
// is closed: *Literal, *BindMarker, *ListLiteral, *SetLiteral, *MapLiteral, *UDTLiteral, *TupleLiteral, *FunctionCall,
// *TypeHint, *CastTerm, *ArithmeticTerm, *NegateTerm. A term has no type until package query knows the column or the
// argument that receives it.
type Term interface{ term() }

// LiteralKind is the syntactic kind of a literal. It follows from the spelling alone.
type LiteralKind uint8

// The kinds of literals.
const (
	LiteralInvalid LiteralKind = iota
	LiteralNull
	LiteralString   // Text is the content, without quotes and escapes
	LiteralInteger  // Text as written: -?[0-9]+
	LiteralFloat    // Text as written; also NaN, -NaN, Infinity, -Infinity in this spelling
	LiteralBoolean  // Text is "true" or "false"
	LiteralUUID     // Text as written, 36 characters
	LiteralBlob     // Text as written, "0x…"
	LiteralDuration // Text as written: 1h30m, -P1Y2M, P3W, P2000-01-01T00:00:00
)

// Literal is a constant. Text is not converted: whether 300 fits depends on the type.
type Literal struct {
	// Kind determines the format of Text.
	Kind LiteralKind
	Text string // empty for null
}

// BindMarker is a placeholder for a value of the request: ? or :name. Two markers with the same name have different
// indexes.
type BindMarker struct {
	// The position of the marker among all markers of the text, from 0. Values are bound by it.
	Index int
	Name  string // empty for ?
}

// ListLiteral is [a, b]: a list or a vector. Which of the two it is depends on the type that is expected.
type ListLiteral struct{ Elements []Term }

// SetLiteral is {a, b}. Without elements it may also be an empty map.
type SetLiteral struct{ Elements []Term }

// MapLiteral is {k: v, …}, with at least one entry.
type MapLiteral struct{ Entries []MapEntry }

// MapEntry is one k: v.
type MapEntry struct{ Key, Value Term }

// UDTLiteral is {field: value, …}, with at least one field. Fields are in the order of the text; fields that are not
// named are null.
type UDTLiteral struct{ Fields []UDTField }

// UDTField is one field: value.
type UDTField struct {
	// Folded like every name.
	Name  string
	Value Term
}

// TupleLiteral is (a, b). With one element it may also be a term in parentheses: CQL's syntax does not distinguish
// them.
type TupleLiteral struct{ Elements []Term }

// FunctionCall is f(a, b). Token(…) is a call of "token". Name has no keyspace for native functions, and for functions
// of the session's keyspace.
type FunctionCall struct {
	Name QualifiedName
	Args []Term
}

// TypeHint is (type) term. It selects among overloaded functions and does not convert, unlike CastTerm.
type TypeHint struct {
	Type  TypeExpr
	Value Term
}

// CastTerm is CAST(term AS type) in a place where no column may be named. It converts, unlike TypeHint.
type CastTerm struct {
	Value Term
	Type  TypeExpr
}

// ArithmeticTerm is left op right. Operators of one level are left-associative, and * / % bind more tightly than + -.
type ArithmeticTerm struct {
	Operator    Arithmetic
	Left, Right Term
}

// NegateTerm is -term.
type NegateTerm struct{ Value Term }

func (*Literal) term()        {}
func (*BindMarker) term()     {}
func (*ListLiteral) term()    {}
func (*SetLiteral) term()     {}
func (*MapLiteral) term()     {}
func (*UDTLiteral) term()     {}
func (*TupleLiteral) term()   {}
func (*FunctionCall) term()   {}
func (*TypeHint) term()       {}
func (*CastTerm) term()       {}
func (*ArithmeticTerm) term() {}
func (*NegateTerm) term()     {}
