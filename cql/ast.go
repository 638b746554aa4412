package cql

// Statement is one CQL statement. The sum type is closed: every implementation is a pointer to a struct of this
// package (*Select, *Insert, *CreateTable, …).
//
// A statement represents the text, not its meaning: names and types are not resolved. Names are folded (unquoted ones
// are lower case), so statements with the same name contain the same string. A statement is immutable once Parse has
// returned it, and may be shared.
type Statement interface{ statement() }

// QualifiedName names an object, optionally within a keyspace. Its parts are names without quotes, as Statement says.
type QualifiedName struct {
	// The name of the keyspace; empty means the session's.
	Keyspace string
	Name     string
}

// String returns the name as CQL text, quoted where it must be. Parse reads it back as the same name.
func (n QualifiedName) String() string { return string(appendQualifiedName(nil, n)) }

// Operator compares a column, or a part of one, with a value. The order matters in one place: NotContains and
// NotContainsKey follow each other as Contains and ContainsKey do, and the builder computes the negated operator from
// the plain one.
type Operator uint8

// The operators of relations and conditions. IN and IS NOT NULL have separate AST nodes.
const (
	OperatorInvalid Operator = iota
	Equal
	NotEqual
	Less
	LessOrEqual
	Greater
	GreaterOrEqual
	Like
	Contains
	ContainsKey
	NotContains    // only in WHERE
	NotContainsKey // only in WHERE
	ILike          // LIKE without regard to case; only in WHERE
)

// String returns the operator as CQL text. An invalid operator is "?", which no statement parses.
func (o Operator) String() string {
	//exhaustive:enforce
	switch o {
	case Equal:
		return "="
	case NotEqual:
		return "!="
	case Less:
		return "<"
	case LessOrEqual:
		return "<="
	case Greater:
		return ">"
	case GreaterOrEqual:
		return ">="
	case Like:
		return "LIKE"
	case Contains:
		return "CONTAINS"
	case ContainsKey:
		return "CONTAINS KEY"
	case NotContains:
		return "NOT CONTAINS"
	case NotContainsKey:
		return "NOT CONTAINS KEY"
	case ILike:
		return "ILIKE"
	// The zero value belongs to a Condition or Constraint without a comparison.
	case OperatorInvalid:
	}
	return "?"
}

// Arithmetic is an operator between two numbers (or a time and a duration). Package query determines which types of
// operands an operator accepts.
type Arithmetic byte

// The arithmetic operators; each is its own character.
const (
	Plus     Arithmetic = '+'
	Minus    Arithmetic = '-'
	Multiply Arithmetic = '*'
	Divide   Arithmetic = '/'
	Modulo   Arithmetic = '%'
)

// Function returns the name of the native function that computes the operator. Package query resolves it among the
// native functions. It returns the empty string for an invalid operator.
func (a Arithmetic) Function() string {
	//exhaustive:enforce
	switch a {
	case Plus:
		return "_add"
	case Minus:
		return "_substract" // Cassandra's spelling
	case Multiply:
		return "_multiply"
	case Divide:
		return "_divide"
	case Modulo:
		return "_modulo"
	}
	return ""
}
