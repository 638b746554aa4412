package odata

// Op compares a property with a value. Zero is no operator. StartsWith and Contains are functions in the text of a
// filter.
type Op uint8

// The comparisons.
const (
	Eq Op = 1 + iota
	Ne
	Gt
	Ge
	Lt
	Le
	StartsWith // beyond Azure; for strings
	Contains   // beyond Azure; for strings
)

// Expr is a $filter: *Comparison, *And, *Or, *Not, or *Constant. An Expr is immutable after it was parsed, and safe for
// concurrent use. A nil Expr means true. Depth is bounded by Limits.FilterDepth and, for chains of and and or, by
// Limits.Comparisons. The filter PartitionKey eq 'p' and (Age gt 5 or not (Done eq true)) is:
//
//	And
//	├── Comparison PartitionKey Eq 'p'
//	└── Or
//	    ├── Comparison Age Gt 5
//	    └── Not
//	        └── Comparison Done Eq true
type Expr interface{ expr() }

// Comparison compares a property with a value. PartitionKey, RowKey and Timestamp count as properties. Property is not
// empty; Value has a type. A value on the left of the operator has been moved to the right, and the operator flipped.
// The entity's property is always on the left.
type Comparison struct {
	Property string
	Op       Op
	Value    Value
}

// And is true when both sides are.
type And struct{ Left, Right Expr }

// Or is true when one side is.
type Or struct{ Left, Right Expr }

// Not is true when X is not.
type Not struct{ X Expr }

// Constant is true or false. It results from literals in the filter. The service accepts filters such as "true" or "1
// eq 1".
type Constant struct{ True bool }

func (*Comparison) expr() {}
func (*And) expr()        {}
func (*Or) expr()         {}
func (*Not) expr()        {}
func (*Constant) expr()   {}
