package cql

// Property is one name = value of WITH. The value is a *Literal (a bare word counts as a string) or a *MapLiteral
// whose keys and values are literals. Package query validates the names. The names are folded like other names, so
// Get finds them in any spelling.
type Property struct {
	Name  string
	Value Term
}

// Properties are the properties of WITH in their order, without duplicates.
type Properties []Property

// Get returns the value of the property called name. name is in lower case. The lists are short, so a search is enough.
func (p Properties) Get(name string) (Term, bool) {
	for i := range p {
		if p[i].Name == name {
			return p[i].Value, true
		}
	}
	return nil, false
}

// TableOptions are the options after WITH of a table or a view. An option that is not set has its zero value, and
// package query fills in the default.
type TableOptions struct {
	Properties Properties
	// CLUSTERING ORDER BY, in the order of the text; nil means ascending.
	ClusteringOrder []ClusteringOrder
	// COMPACT STORAGE. Package query converts the columns to the compact form, or rejects them.
	CompactStorage bool
}

// ClusteringOrder is one element of CLUSTERING ORDER BY.
type ClusteringOrder struct {
	Column     string
	Descending bool
}

// CreateKeyspace is CREATE KEYSPACE.
type CreateKeyspace struct {
	Keyspace    string
	IfNotExists bool
	Properties  Properties
}

// AlterKeyspace is ALTER KEYSPACE.
type AlterKeyspace struct {
	Keyspace   string
	IfExists   bool
	Properties Properties
}

// DropKeyspace is DROP KEYSPACE.
type DropKeyspace struct {
	Keyspace string
	IfExists bool
}

// CreateTable is CREATE TABLE. A primary key is in PrimaryKeys or in its column; package query checks that there is
// exactly one. Like Cassandra's, the grammar allows several primary keys. Package query also rejects duplicate names
// in Columns.
type CreateTable struct {
	Table       QualifiedName
	IfNotExists bool
	Columns     []ColumnDefinition
	// PRIMARY KEY (…) among the columns.
	PrimaryKeys []PrimaryKey
	Options     TableOptions
}

// CreateTableLike is CREATE TABLE t LIKE source WITH ….
type CreateTableLike struct {
	Table       QualifiedName
	IfNotExists bool
	// The table whose columns and key are copied.
	Source   QualifiedName
	Indexes  bool // WITH INDEXES
	Comments bool // WITH COMMENTS
	Labels   bool // WITH SECURITY LABELS
	// Properties that replace properties of the source.
	Properties Properties
}

// ColumnDefinition is one column of CREATE TABLE or ALTER TABLE ADD. PrimaryKey means that the column alone is the
// primary key.
type ColumnDefinition struct {
	Name   string
	Type   TypeExpr
	Static bool
	// NOT NULL after the type, outside of CHECK. CHECK NOT NULL is an element of Constraints.
	NotNull     bool
	Mask        *Mask
	Constraints []Constraint // of CHECK
	Default     Term         // nil means none
	PrimaryKey  bool         // followed by PRIMARY KEY
}

// Constraint is one element of CHECK: NOT NULL (Function is then "NOT_NULL"), a comparison of the column (Column is
// set), or a function of it, with or without a comparison.
type Constraint struct {
	// The column that is compared, as in c > 5. Empty means that Function is set.
	Column   string
	Function string // in the spelling of the text
	Args     []Term
	// The comparison; OperatorInvalid means that the function alone is the constraint.
	Operator Operator
	Value    *Literal // nil without Operator
}

// NotNullConstraint is the Function of CHECK NOT NULL.
const NotNullConstraint = "NOT_NULL"

// Mask is MASKED WITH DEFAULT, or MASKED WITH function(args). The value of the column is the first argument of the
// function, and is not in Args.
type Mask struct {
	// MASKED WITH DEFAULT. Function and Args are not set then.
	Default  bool
	Function QualifiedName
	Args     []Term // *Literal, or terms without bind markers
}

// PrimaryKey is PRIMARY KEY ((partition…), clustering…). Both lists are in the order of the text. Partition has at
// least one column.
type PrimaryKey struct {
	Partition  []string
	Clustering []string
}

// AlterTable is ALTER TABLE t action. Action is never nil.
type AlterTable struct {
	Table    QualifiedName
	IfExists bool
	Action   AlterTableAction
}

// AlterTableAction is the action of ALTER TABLE. The sum type is closed: *AddColumns, *DropColumns, *RenameColumns,
// *AlterColumnType, *AlterColumnMask, *AlterColumnConstraints, *AlterColumnDefault, *DropCompactStorage,
// *SetTableOptions, *UndropColumns, *PurgeColumns.
type AlterTableAction interface{ alterTable() }

// AddColumns is ADD. The columns have no PrimaryKey.
type AddColumns struct {
	IfNotExists bool
	Columns     []ColumnDefinition
}

// DropColumns is DROP, without (nil) or with a timestamp. The timestamp is in microseconds: cells up to it are dropped.
type DropColumns struct {
	IfExists bool
	Columns  []string
	// Microseconds; nil means now.
	Timestamp *Literal // integer
}

// UndropColumns is UNDROP, an extension: it restores dropped columns.
type UndropColumns struct{ Columns []string }

// PurgeColumns is PURGE, an extension: dropped columns cannot be restored from then on.
type PurgeColumns struct{ Columns []string }

// RenameColumns is RENAME a TO b AND ….
type RenameColumns struct {
	IfExists bool
	Renames  []Rename
}

// Rename is one a TO b.
type Rename struct{ From, To string }

// AlterColumnType is ALTER c TYPE t, which Cassandra always rejects. It is parsed, so that the client gets the
// message and not a syntax error.
type AlterColumnType struct {
	IfExists bool
	Column   string
	Type     TypeExpr
}

// AlterColumnMask is ALTER c MASKED WITH …, or DROP MASKED (Mask is nil).
type AlterColumnMask struct {
	IfExists bool
	Column   string
	Mask     *Mask
}

// AlterColumnConstraints is ALTER c CHECK …, or DROP CHECK (Constraints is empty).
type AlterColumnConstraints struct {
	IfExists    bool
	Column      string
	Constraints []Constraint
}

// AlterColumnDefault is ALTER c SET DEFAULT term, or DROP DEFAULT (Default is nil).
type AlterColumnDefault struct {
	IfExists bool
	Column   string
	Default  Term
}

// DropCompactStorage is DROP COMPACT STORAGE.
type DropCompactStorage struct{}

// SetTableOptions is WITH ….
type SetTableOptions struct{ Options TableOptions }

// DropTable is DROP TABLE.
type DropTable struct {
	Table    QualifiedName
	IfExists bool
}

// UndropTable is UNDROP TABLE, an extension.
type UndropTable struct {
	Table      QualifiedName
	As         string     // the name of the restored table, in the keyspace of Table
	Properties Properties // id selects one of several dropped tables with the name
}

// PurgeTable is PURGE TABLE, an extension: it removes dropped tables before their time.
type PurgeTable struct {
	Table      QualifiedName
	IfExists   bool
	Properties Properties // as in UndropTable
}

// UndropKeyspace is UNDROP KEYSPACE, an extension.
type UndropKeyspace struct {
	Keyspace   string
	As         string     // the name of the restored keyspace
	Properties Properties // id selects one of several dropped keyspaces with the name
}

// PurgeKeyspace is PURGE KEYSPACE, an extension: it removes dropped keyspaces before their time.
type PurgeKeyspace struct {
	Keyspace   string
	IfExists   bool
	Properties Properties // as in UndropKeyspace
}

// CreateType is CREATE TYPE. Fields are in the order of their encoding.
type CreateType struct {
	Type        QualifiedName
	IfNotExists bool
	Fields      []FieldDefinition
}

// FieldDefinition is a name with its type: a field of a user-defined type, or an argument of a function. The type is
// resolved with the types of the keyspace.
type FieldDefinition struct {
	Name string
	Type TypeExpr
}

// AlterType is ALTER TYPE ty action.
type AlterType struct {
	Type     QualifiedName
	IfExists bool
	Action   AlterTypeAction
}

// AlterTypeAction is the action of ALTER TYPE. The sum type is closed: *AddField, *RenameFields, *AlterFieldType.
type AlterTypeAction interface{ alterType() }

// AddField is ADD f type.
type AddField struct {
	IfNotExists bool
	Field       FieldDefinition
}

// RenameFields is RENAME f TO g AND ….
type RenameFields struct {
	IfExists bool
	Renames  []Rename
}

// AlterFieldType is ALTER f TYPE t, which Cassandra always rejects.
type AlterFieldType struct {
	IfExists bool
	Field    string
	Type     TypeExpr
}

// DropType is DROP TYPE.
type DropType struct {
	Type     QualifiedName
	IfExists bool
}

// IndexTargetKind is the part of a column that an index covers. The kinds besides TargetColumn are about collections.
type IndexTargetKind uint8

// The kinds of index targets.
const (
	TargetColumn IndexTargetKind = iota // the column itself (values, for a collection)
	TargetValues
	TargetKeys
	TargetEntries
	TargetFull
)

// String returns the keyword of the kind, empty for TargetColumn.
func (k IndexTargetKind) String() string {
	//exhaustive:enforce
	switch k {
	case TargetValues:
		return "VALUES"
	case TargetKeys:
		return "KEYS"
	case TargetEntries:
		return "ENTRIES"
	case TargetFull:
		return "FULL"
	case TargetColumn:
	}
	return ""
}

// IndexTarget is one column of CREATE INDEX. Without a kind, a collection is indexed by its values.
type IndexTarget struct {
	// What of the column is indexed.
	Kind   IndexTargetKind
	Column string
}

// CreateIndex is CREATE INDEX.
type CreateIndex struct {
	Custom      bool
	IfNotExists bool
	// The name of the index, without a keyspace: an index is in the keyspace of its table. Empty means that a name is
	// generated.
	Name    string
	Table   QualifiedName
	Targets []IndexTarget // Cassandra's grammar also accepts none
	// The class of the index, which may be the empty string. Nil means that the text has no USING.
	Using      *string
	Properties Properties // OPTIONS = {…}
}

// DropIndex is DROP INDEX.
type DropIndex struct {
	Index    QualifiedName
	IfExists bool
}

// CreateMaterializedView is CREATE MATERIALIZED VIEW.
type CreateMaterializedView struct {
	View        QualifiedName
	IfNotExists bool
	Columns     []SelectColumn // empty means *
	Table       QualifiedName  // Base completes it
	// Which rows of the base table the view contains.
	Where      []Relation
	PrimaryKey PrimaryKey
	Options    TableOptions
}

// Base returns the name of the base table. If the name has no keyspace, the table is in the keyspace of the view.
func (s *CreateMaterializedView) Base() QualifiedName {
	if s.Table.Keyspace == "" {
		return QualifiedName{Keyspace: s.View.Keyspace, Name: s.Table.Name}
	}
	return s.Table
}

// AlterMaterializedView is ALTER MATERIALIZED VIEW v WITH ….
type AlterMaterializedView struct {
	View     QualifiedName
	IfExists bool
	Options  TableOptions
}

// DropMaterializedView is DROP MATERIALIZED VIEW.
type DropMaterializedView struct {
	View     QualifiedName
	IfExists bool
}

// CreateFunction is CREATE FUNCTION. The language is in lower case, and the body without its quotes. Executing the
// statement checks the language and compiles the body.
type CreateFunction struct {
	OrReplace   bool
	IfNotExists bool
	Name        QualifiedName
	Args        []FieldDefinition
	// CALLED ON NULL INPUT. Otherwise the function RETURNS NULL ON NULL INPUT: one of the two is obligatory.
	CalledOnNullInput bool
	Returns           TypeExpr
	Language          string
	Body              string
}

// DropFunction is DROP FUNCTION f, or f(types) when HasArgs. Without types the name must not be overloaded.
type DropFunction struct {
	IfExists bool
	Name     QualifiedName
	Args     []TypeExpr
	// Distinguishes f() from f.
	HasArgs bool
}

// CreateAggregate is CREATE AGGREGATE. The state function has the state as its first argument and returns the next one.
type CreateAggregate struct {
	OrReplace   bool
	IfNotExists bool
	Name        QualifiedName
	Args        []TypeExpr
	// A name without a keyspace: the function is in the keyspace of the aggregate.
	StateFunction string
	StateType     TypeExpr
	// Converts the last state to the result.
	FinalFunction string // empty means none
	// It is a value of StateType.
	Initial Term // nil means null
}

// DropAggregate is DROP AGGREGATE a, or a(types) when HasArgs.
type DropAggregate struct {
	IfExists bool
	Name     QualifiedName
	Args     []TypeExpr
	HasArgs  bool
}

// CreateTrigger is CREATE TRIGGER. A trigger is a Java class. Using is the name of that class.
type CreateTrigger struct {
	IfNotExists bool
	Name        string
	Table       QualifiedName
	Using       string
}

// DropTrigger is DROP TRIGGER.
type DropTrigger struct {
	IfExists bool
	Name     string
	Table    QualifiedName
}

// CommentKind is the object of COMMENT ON and of SECURITY LABEL ON.
type CommentKind uint8

// The objects of COMMENT ON and SECURITY LABEL ON.
const (
	CommentKeyspace CommentKind = iota // Name.Name
	CommentTable
	CommentColumn // Name is the table, Member the column
	CommentType
	CommentField // Name is the type, Member the field
)

// String returns the keyword of the kind.
func (k CommentKind) String() string {
	//exhaustive:enforce
	switch k {
	case CommentKeyspace:
		return "KEYSPACE"
	case CommentTable:
		return "TABLE"
	case CommentColumn:
		return "COLUMN"
	case CommentType:
		return "TYPE"
	case CommentField:
		return "FIELD"
	}
	return "?"
}

// CommentOn is COMMENT ON … IS …, or SECURITY LABEL ON … IS ….
type CommentOn struct {
	Kind   CommentKind
	Name   QualifiedName
	Member string // a column or a field
	// A null literal removes the comment or label.
	Comment *Literal // string or null
	Label   bool     // SECURITY LABEL
	// The provider of SECURITY LABEL FOR; empty means none, and COMMENT ON has none.
	Provider string
}

// DescribeKind is the object of DESCRIBE.
type DescribeKind uint8

// The objects of DESCRIBE: lists, elements, or any element by its name.
const (
	DescribeInvalid DescribeKind = iota
	DescribeCluster
	DescribeSchema           // Full: with the system keyspaces
	DescribeKeyspaces        // list
	DescribeKeyspace         // Name.Name, empty means the session's; Only: without its elements
	DescribeTables           // list
	DescribeTable            // Name
	DescribeIndex            // Name
	DescribeMaterializedView // Name
	DescribeTypes            // list
	DescribeType             // Name
	DescribeFunctions        // list
	DescribeFunction         // Name
	DescribeAggregates       // list
	DescribeAggregate        // Name
	DescribeGeneric          // Name of a keyspace, table, index or view
)

// Describe is DESCRIBE …. cqlsh sends DESCRIBE to the server and prints the create_statement of its rows.
type Describe struct {
	Kind DescribeKind
	Name QualifiedName
	Full bool // of DescribeSchema
	Only bool // of DescribeKeyspace
	// WITH INTERNALS adds what a restore needs, such as identifiers and dropped columns.
	Internals bool // WITH INTERNALS
}

func (*CreateKeyspace) statement()         {}
func (*AlterKeyspace) statement()          {}
func (*DropKeyspace) statement()           {}
func (*CreateTable) statement()            {}
func (*CreateTableLike) statement()        {}
func (*CommentOn) statement()              {}
func (*AlterTable) statement()             {}
func (*DropTable) statement()              {}
func (*UndropTable) statement()            {}
func (*PurgeTable) statement()             {}
func (*UndropKeyspace) statement()         {}
func (*PurgeKeyspace) statement()          {}
func (*CreateType) statement()             {}
func (*AlterType) statement()              {}
func (*DropType) statement()               {}
func (*CreateIndex) statement()            {}
func (*DropIndex) statement()              {}
func (*CreateMaterializedView) statement() {}
func (*AlterMaterializedView) statement()  {}
func (*DropMaterializedView) statement()   {}
func (*CreateFunction) statement()         {}
func (*DropFunction) statement()           {}
func (*CreateAggregate) statement()        {}
func (*DropAggregate) statement()          {}
func (*CreateTrigger) statement()          {}
func (*DropTrigger) statement()            {}
func (*Describe) statement()               {}

func (*AddColumns) alterTable()             {}
func (*DropColumns) alterTable()            {}
func (*UndropColumns) alterTable()          {}
func (*PurgeColumns) alterTable()           {}
func (*RenameColumns) alterTable()          {}
func (*AlterColumnType) alterTable()        {}
func (*AlterColumnMask) alterTable()        {}
func (*AlterColumnConstraints) alterTable() {}
func (*AlterColumnDefault) alterTable()     {}
func (*DropCompactStorage) alterTable()     {}
func (*SetTableOptions) alterTable()        {}

func (*AddField) alterType()       {}
func (*RenameFields) alterType()   {}
func (*AlterFieldType) alterType() {}
