package schema

import (
	"cqld/ring"
	"cqld/types"
)

// Change is one step from a schema to the next. The set of implementations is closed: *CreateKeyspace, *AlterKeyspace,
// *DropKeyspace, *CreateTable, *AlterTable, *DropTable, *CreateView, *AlterView, *DropView, *CreateType, *AlterType,
// *DropType, *CreateIndex, *DropIndex, *CreateFunction, *CreateAggregate, *DropFunction, *UndropTable, *PurgeTables,
// *ReplaceTables, *UndropKeyspace, *PurgeKeyspaces.
//
// A Change contains every id and time that it adds to the schema, so that every node gets the same schema from it. It
// is immutable.
// change marks the implementations.
type Change interface{ change() }

// CreateKeyspace creates a keyspace. Apply fails if the replication is invalid (checkReplication).
type CreateKeyspace struct {
	Keyspace    string
	IfNotExists bool
	// Replication names data centers that need not exist.
	Replication   ring.Replication
	DurableWrites bool
}

// AlterKeyspace changes the properties that are not nil.
// A keyspace that does not exist is no error.
type AlterKeyspace struct {
	Keyspace string
	IfExists bool
	// Replication replaces the whole replication, not individual factors.
	Replication   *ring.Replication
	DurableWrites *bool
	// Extend sets individual extensions and leaves the others unchanged; nil removes one.
	Extend map[string][]byte `json:",omitempty"`
	// nil means that neither comment nor label changes.
	Comment *Comment `json:",omitempty"`
}

// DropKeyspace drops a keyspace with all its tables, types and functions.
type DropKeyspace struct {
	Keyspace string
	IfExists bool
	// Retention keeps the keyspace so that it can be restored. nil removes it at once.
	Retention *Retention `json:",omitempty"`
}

// UndropKeyspace restores a dropped keyspace with the name As.
type UndropKeyspace struct {
	Keyspace string // the hidden name: several dropped keyspaces may have had one name
	As       string
}

// PurgeKeyspaces removes dropped keyspaces. Several nodes may propose it, and a node may propose it by an old schema: a
// keyspace that was restored is ignored.
type PurgeKeyspaces struct {
	Keyspaces map[string]int64 // the end of the grace (Retention.Until) of each, by hidden name
}

// CreateTable creates a table. Key columns are in key order, before the others; the order of the others determines
// their ids.
type CreateTable struct {
	Keyspace    string
	Table       string
	IfNotExists bool
	// Unique among all tables of the schema. The number in storage is assigned by Apply.
	ID UUID
	// Columns determine the ids: Apply assigns them in this order.
	Columns []ColumnSpec // with the hidden ones of a compact table
	Options Options
	// The form that Columns have; zero for ordinary tables.
	Compact Compact       `json:",omitempty"`
	Indexes []CreateIndex `json:",omitempty"` // of CREATE TABLE LIKE … WITH INDEXES
}

// ColumnSpec defines a new column. It has no id: Apply assigns one.
type ColumnSpec struct {
	Name string
	// For CreateTable any kind, for AlterTable.Add only Static and Regular.
	Kind ColumnKind
	// Descending; for clustering columns only.
	Desc       bool
	Type       *types.Type
	Mask       *Mask       // nil means none
	Attributes *Attributes // nil means none
}

// AlterTable does one of: add columns, drop columns, rename key columns, drop compact storage, set the mask or
// attributes of a column, set options, set extensions. The first that is present applies. The statements:
//
//	ADD, DROP, RENAME                             Add, Drop, Rename
//	DROP COMPACT STORAGE                          DropCompact
//	ALTER c MASKED WITH, DROP MASKED              Mask
//	ALTER c CHECK, SET DEFAULT; COMMENT ON COLUMN Attributes
//	WITH; COMMENT ON TABLE                        Set and Options
type AlterTable struct {
	Keyspace string
	Table    string
	IfExists bool

	Add []ColumnSpec // Static or Regular
	// Columns that exist are skipped.
	AddIfNotExists bool

	Drop         []string
	DropIfExists bool
	// The node that creates the change reads its clock, so that all nodes hide the same cells.
	DropMicros int64 // µs since 1970; cells with timestamps up to this one are dropped

	// Renames apply in order: a later one sees the names that an earlier one has given.
	Rename []Rename

	DropCompact bool `json:",omitempty"` // DROP COMPACT STORAGE

	Mask       *MaskChange       `json:",omitempty"`
	Attributes *AttributesChange `json:",omitempty"`

	// Names are as CREATE TABLE … WITH has them, or LabelOption.
	Set []string // names of the options to take from Options
	// Only the options in Set are used.
	Options Options

	// Extend sets individual extensions and leaves the others unchanged, which Set cannot; nil removes one.
	Extend map[string][]byte `json:",omitempty"`
}

// Rename changes the name of a key column or of a field of a type.
type Rename struct {
	// Both are names as stored: unquoted, with case.
	From, To string
	Check    string `json:",omitempty"` // the constraints of the column with its new name
}

// DropTable drops a table with its data and indexes. A table with views is not dropped.
type DropTable struct {
	Keyspace string
	Table    string
	IfExists bool
	// Retention keeps the table so that it can be restored. nil removes it at once.
	Retention *Retention `json:",omitempty"`
}

// UndropTable restores a retained table with the name As. Its indexes keep their names unless these are in use.
type UndropTable struct {
	Keyspace string
	Table    StorageID // names of retained tables are not unique
	As       string
}

// PurgeTables removes retained tables. Several nodes may propose it, and a node may propose it by an old schema: a
// table that was restored, or dropped again since, is ignored.
type PurgeTables struct {
	Tables map[StorageID]int64 // the end of the grace (Retention.Until) of each
}

// CreateType creates the user-defined type Type (not frozen). Its keyspace is the type's.
type CreateType struct {
	IfNotExists bool
	Type        *types.Type
}

// AlterType adds a field (FieldType is not nil) or renames fields. Renames apply in order.
//
//	ALTER TYPE u ADD f int         Field: f, FieldType: int
//	ALTER TYPE u RENAME f TO g     Rename: {f g}
type AlterType struct {
	Keyspace string
	Name     string
	IfExists bool

	// The new field becomes the last one. Field is ignored if FieldType is nil.
	Field            string
	FieldType        *types.Type
	FieldIfNotExists bool

	Rename         []Rename
	RenameIfExists bool
}

// DropType drops a user-defined type that is not in use.
type DropType struct {
	Keyspace string
	Name     string
	IfExists bool
}

// CreateIndex creates an index of a table.
type CreateIndex struct {
	Keyspace    string
	Table       string
	Name        string `json:",omitempty"` // empty means that Apply chooses one
	IfNotExists bool
	Class       IndexClass // zero means a class that does not exist, which Apply refuses
	// The name of the column as stored; hidden columns of compact tables are not found.
	Column  string
	Target  IndexTarget       // IndexSimple means the default of the column
	Options map[string]string `json:",omitempty"` // as in Index
}

// DropIndex drops an index with its entries.
type DropIndex struct {
	Keyspace string
	Name     string
	IfExists bool
}

func (*CreateKeyspace) change() {}
func (*AlterKeyspace) change()  {}
func (*DropKeyspace) change()   {}
func (*UndropKeyspace) change() {}
func (*PurgeKeyspaces) change() {}
func (*CreateTable) change()    {}
func (*AlterTable) change()     {}
func (*DropTable) change()      {}
func (*UndropTable) change()    {}
func (*PurgeTables) change()    {}
func (*CreateType) change()     {}
func (*AlterType) change()      {}
func (*DropType) change()       {}
func (*CreateIndex) change()    {}
func (*DropIndex) change()      {}

// CreateFunction creates or replaces a function. OrReplace and IfNotExists exclude each other.
type CreateFunction struct {
	OrReplace   bool
	IfNotExists bool
	// Its types may be older versions of user-defined types: Apply replaces them by the current ones.
	Function *Function
}

// CreateAggregate creates or replaces an aggregate. The type of its result follows from its functions:
// Aggregate.Returns is nil.
type CreateAggregate struct {
	OrReplace   bool
	IfNotExists bool
	// Apply also checks that its functions exist, with fitting arguments.
	Aggregate *Aggregate
}

// DropFunction drops a function or an aggregate.
type DropFunction struct {
	// Aggregate selects DROP AGGREGATE: the two statements do not drop each other's elements.
	Aggregate bool
	Keyspace  string
	Name      string
	// Only with HasArgs.
	Args     []*types.Type
	HasArgs  bool // otherwise the only function with this name
	IfExists bool
}

func (*CreateFunction) change()  {}
func (*CreateAggregate) change() {}
func (*DropFunction) change()    {}
