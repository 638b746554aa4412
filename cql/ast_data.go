package cql

// Statements that read and write rows. Their parts, by the place in the text:
//
//	SELECT  Selector …  FROM  QualifiedName  WHERE  Relation …  ORDER BY  Ordering …  LIMIT  Term
//	INSERT  QualifiedName  (names)  VALUES  Term …  USING  Using
//	UPDATE  QualifiedName  USING  Using  SET  Assignment …  WHERE  Relation …  IF  Condition …
//	DELETE  DeleteTarget …  FROM  QualifiedName  USING  Using  WHERE  Relation …  IF  Condition …
//
// A Selector may name columns, and a Term may not. A Relation of WHERE selects rows by their stored values; a Condition
// of IF decides whether the write is executed.

// Select is SELECT … FROM …. It is also the SELECT of EXPLAIN.
//
// A nil Term means that the text does not contain the clause. Package query rejects invalid combinations of clauses,
// which the grammar accepts.
type Select struct {
	// SELECT JSON returns each row as one text column, called [json].
	JSON     bool
	Distinct bool
	// The selectors with their aliases, in the order of the result. Empty means *.
	Columns []SelectColumn
	Table   QualifiedName
	// Fragments reads what the executing node has stored for the table, an extension (docs/differences.md).
	Fragments bool // of MUTATION_FRAGMENTS(Table)
	// The relations are joined by AND. A WHERE with OR outside parentheses is a single *OrRelation.
	Where []Relation
	// Columns, or functions of them, of the primary key; package query checks that.
	GroupBy []Selector
	OrderBy []Ordering
	// The rows of each partition: nil, *Literal (integer) or *BindMarker. Limit and Offset have the same forms, and
	// count the rows of the result.
	PerPartitionLimit Term
	Limit             Term // nil, *Literal (integer) or *BindMarker
	// Offset is an extension: it omits the first rows or groups of the result.
	Offset         Term // nil, *Literal (integer) or *BindMarker
	AllowFiltering bool
	// The duration of USING TIMEOUT, in place of the configured timeouts: nil, *Literal (duration) or *BindMarker.
	Timeout Term
}

// SelectColumn is one selector with its alias.
type SelectColumn struct {
	// An expression over the columns of the row, or an aggregate of the rows of a group.
	Selector Selector
	Alias    string // empty means none
}

// Ordering is one element of ORDER BY.
type Ordering struct {
	Column string
	// The vector of ORDER BY c ANN OF term, from which the distance is measured; nil without ANN OF.
	ANN        Term
	Descending bool
}

// Insert is INSERT INTO t (…) VALUES (…). len(Columns) may differ from len(Values); package query checks it. Both lists
// are in the order of the text.
type Insert struct {
	Table QualifiedName
	// The names as the statement lists them; Values has the value of each at the same position.
	Columns     []string
	Values      []Term
	IfNotExists bool
	Using       Using
}

// InsertJSON is INSERT INTO t JSON ….
type InsertJSON struct {
	Table QualifiedName
	// The document: *Literal (string) or *BindMarker.
	Value Term
	// DEFAULT UNSET: columns that the document omits keep their values. Otherwise they become null.
	DefaultUnset bool
	IfNotExists  bool
	Using        Using
}

// Update is UPDATE t SET …. IfExists and Conditions exclude each other in the grammar.
type Update struct {
	Table       QualifiedName
	Using       Using
	Assignments []Assignment
	Where       []Relation
	IfExists    bool
	Conditions  []Condition
}

// Delete is DELETE … FROM t.
type Delete struct {
	// The columns and elements to delete. Empty means whole rows.
	Targets    []DeleteTarget
	Table      QualifiedName
	Using      Using // without TTL
	Where      []Relation
	IfExists   bool
	Conditions []Condition
}

// DeleteTarget is a column, an element of one (Key set) or a field of one (Field set). At most one of Key and Field is
// set.
type DeleteTarget struct {
	Column string
	// Key is the key of a map, the element of a set, or the index of a list; nil unless an element is deleted.
	Key Term
	// The field of a user-defined type; empty unless a field is deleted.
	Field string
}

// Using is USING TIMESTAMP … AND TTL … AND TIMEOUT …; each is nil, *Literal (integer, for Timeout duration) or
// *BindMarker. TTL cannot be a null literal, but a bind marker may be bound to null.
//
// The zero value means that the text has no USING. Timestamps are in microseconds since the epoch and TTLs in
// seconds; package query checks their ranges, because a marker has no value yet.
type Using struct {
	// Microseconds since the epoch.
	Timestamp Term
	// Seconds.
	TTL Term
	// An extension (docs/differences.md): the time for the statement.
	Timeout Term
}

// BatchKind is the guarantee of a batch. The values equal the <type> of a BATCH message in the native protocol.
type BatchKind uint8

// The kinds of batches. The zero value is the logged batch.
const (
	// BatchLogged writes the batch to the batch log first, so that either all statements take effect or none.
	BatchLogged BatchKind = iota
	// BatchUnlogged writes without the batch log.
	BatchUnlogged
	// BatchCounter contains only updates of counters.
	BatchCounter
)

// String returns the keyword of the kind, empty for a logged batch.
func (k BatchKind) String() string {
	//exhaustive:enforce
	switch k {
	case BatchUnlogged:
		return "UNLOGGED"
	case BatchCounter:
		return "COUNTER"
	case BatchLogged:
	}
	return ""
}

// Batch is BEGIN BATCH … APPLY BATCH. Statements of one batch may concern several tables.
type Batch struct {
	Kind  BatchKind
	Using Using
	// The statements, each *Insert, *InsertJSON, *Update or *Delete. Each keeps its own Using.
	Statements []Statement
}

// Use is USE keyspace.
type Use struct{ Keyspace string }

// Truncate is TRUNCATE [TABLE] t. It removes all rows of a table.
type Truncate struct {
	Table   QualifiedName
	Timeout Term // of USING TIMEOUT: nil, *Literal (duration) or *BindMarker
}

// Relation is one condition of WHERE; the relations of a list are joined by AND. The sum is closed: *ColumnRelation,
// *InRelation, *NotNullRelation, *ElementRelation, *TokenRelation, *TupleRelation, *TupleInRelation, *IndexRelation,
// *BetweenRelation, *OrRelation. The left side is a column, never a constant.
type Relation interface{ relation() }

// ColumnRelation is c op term, with every Operator.
type ColumnRelation struct {
	Column   string
	Operator Operator
	Value    Term
}

// InList is the list after IN: terms, or one marker for all of them. An empty Values is IN (), which selects nothing.
type InList struct {
	// The value of the marker is a list of all elements, while each marker in Values is one element.
	Marker *BindMarker // IN ?; Values is then nil
	Values []Term
}

// InRelation is c IN (…), or c NOT IN (…).
type InRelation struct {
	Column string
	// NOT IN, which selects by exclusion.
	Not bool
	In  InList
}

// NotNullRelation is c IS NOT NULL, which only materialized views accept.
type NotNullRelation struct{ Column string }

// ElementRelation is c[key] op term.
type ElementRelation struct {
	Column   string
	Key      Term
	Operator Operator
	Value    Term
}

// TokenRelation is TOKEN(c, …) op term. The columns should be the partition key; package query checks that.
type TokenRelation struct {
	Columns  []string
	Operator Operator
	// The token, usually a call of token(…) or an integer.
	Value Term
}

// TupleRelation is (c, …) op (term, …). Value is *TupleLiteral or *BindMarker. It compares clustering columns together,
// in their order.
type TupleRelation struct {
	Columns  []string
	Operator Operator
	Value    Term
}

// TupleInRelation is (c, …) IN ((…), …), or NOT IN. Every value is *TupleLiteral or *BindMarker. In.Marker is one
// marker for all tuples.
type TupleInRelation struct {
	Columns []string
	Not     bool
	In      InList
}

// IndexRelation is expr(index, term), in the language of a custom index. The index belongs to the table of the
// statement, so its name has no keyspace.
type IndexRelation struct {
	Index QualifiedName
	// The expression for the index, which only the index understands.
	Value Term
}

// BetweenRelation is subject BETWEEN low AND high. Low is the relation subject >= low and High is subject <= high: both
// are *ColumnRelation, *TokenRelation or *TupleRelation of the same columns. Package query restricts the subject by
// both, as if AND stood between them.
type BetweenRelation struct{ Low, High Relation }

// OrRelation is a disjunction: at least two alternatives. Each alternative is a list of relations joined by AND, and
// may contain an *OrRelation within parentheses.
type OrRelation struct{ Alternatives [][]Relation }

// Assignment is one element of SET. The sum is closed: *SetColumn, *AddToColumn, *SubtractFromColumn, *PrependToColumn,
// *SetElement, *SetField. Which of the forms a column allows depends on its type, for example AddToColumn on a counter
// or a collection.
type Assignment interface{ assignment() }

// SetColumn is c = term. A null literal deletes the column.
type SetColumn struct {
	Column string
	Value  Term
}

// AddToColumn is c = c + term, or c += term. For c = c - 3 the lexer reads -3 as one token, so the AST adds the number
// -3.
type AddToColumn struct {
	Column string
	Value  Term
}

// SubtractFromColumn is c = c - term, or c -= term. For a set or list it removes elements, for a map keys.
type SubtractFromColumn struct {
	Column string
	Value  Term
}

// PrependToColumn is c = term + c. Only lists can be extended in front.
type PrependToColumn struct {
	Column string
	Value  Term
}

// SetElement is c[key] = term. For a list Key is an index, for a map a key.
type SetElement struct {
	Column string
	// Key precedes Value in the text and is evaluated first.
	Key   Term
	Value Term
}

// SetField is c.field = term.
type SetField struct {
	Column string
	Field  string
	Value  Term
}

// Condition is one element of IF: a column, an element of one (Key set) or a field of one (Field set), compared with
// Value by Operator or, if In is set, by IN. The conditions of a list are joined by AND. Exactly one of Value and In is
// set.
type Condition struct {
	Column string
	Key    Term
	Field  string
	// The comparison with Value; OperatorInvalid if In is set. IF has fewer operators than WHERE: no LIKE, no BETWEEN,
	// no NOT.
	Operator Operator
	Value    Term
	In       *InList
}

func (*Select) statement()     {}
func (*Insert) statement()     {}
func (*InsertJSON) statement() {}
func (*Update) statement()     {}
func (*Delete) statement()     {}
func (*Batch) statement()      {}
func (*Use) statement()        {}
func (*Truncate) statement()   {}

func (*ColumnRelation) relation()  {}
func (*InRelation) relation()      {}
func (*NotNullRelation) relation() {}
func (*ElementRelation) relation() {}
func (*TokenRelation) relation()   {}
func (*TupleRelation) relation()   {}
func (*TupleInRelation) relation() {}
func (*IndexRelation) relation()   {}
func (*BetweenRelation) relation() {}
func (*OrRelation) relation()      {}

func (*SetColumn) assignment()          {}
func (*AddToColumn) assignment()        {}
func (*SubtractFromColumn) assignment() {}
func (*PrependToColumn) assignment()    {}
func (*SetElement) assignment()         {}
func (*SetField) assignment()           {}
