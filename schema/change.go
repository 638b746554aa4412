package schema

import (
	"cqld/ring"
	"cqld/types"
)

// Change is one step from a schema to the next. The set of implementations is closed: *CreateKeyspace, *AlterKeyspace,
// *DropKeyspace, *CreateTable, *AlterTable, *DropTable, *CreateView, *AlterView, *DropView, *CreateType, *AlterType,
// *DropType, *CreateIndex, *DropIndex, *CreateFunction, *CreateAggregate, *DropFunction, *UndropTable, *PurgeTables,
// *TruncateTable, *ReplaceTables, *UndropKeyspace, *PurgeKeyspaces.
//
// A Change contains every UUID and time that it adds to the schema, so every node computes the same schema from it. It
// is immutable. The method change marks the implementations.
type Change interface{ change() }

// CreateKeyspace creates a keyspace. Apply fails if the replication is invalid (checkReplication).
type CreateKeyspace struct {
	Keyspace    string
	IfNotExists bool
	// Replication may name data centers that do not exist.
	Replication   ring.Replication
	DurableWrites bool
}

// AlterKeyspace changes the properties that are not nil. With IfExists, a missing keyspace is not an error.
type AlterKeyspace struct {
	Keyspace string
	IfExists bool
	// Replication replaces the whole replication, not individual factors.
	Replication   *ring.Replication
	DurableWrites *bool
	// Extend sets individual extensions and keeps the others. A nil value removes one.
	Extend map[string][]byte `json:",omitempty"`
	// nil keeps the comment and the label
	Comment *Comment `json:",omitempty"`
}

// DropKeyspace drops a keyspace with all its tables, types and functions.
type DropKeyspace struct {
	Keyspace string
	IfExists bool
	// Retention keeps the keyspace restorable. nil removes it at once.
	Retention *Retention `json:",omitempty"`
}

// UndropKeyspace restores a dropped keyspace with the name As.
type UndropKeyspace struct {
	Keyspace string // the hidden name: several dropped keyspaces may have had one name
	As       string
}

// PurgeKeyspaces removes dropped keyspaces. Several nodes may propose it, also based on an old schema: a keyspace that
// has been restored is ignored.
type PurgeKeyspaces struct {
	Keyspaces map[string]int64 // the end of the grace (Retention.Until) of each, by hidden name
}

// CreateTable creates a table. Key columns are in key order, before the others; the order of the others determines
// their ids.
type CreateTable struct {
	Keyspace    string
	Table       string
	IfNotExists bool
	// ID is unique among all tables of the schema. Apply assigns the storage id.
	ID UUID
	// Columns determine the ids: Apply assigns them in this order.
	Columns []ColumnSpec // with the hidden ones of a compact table
	Options Options
	// Compact is the form that Columns have; zero for ordinary tables.
	Compact Compact       `json:",omitempty"`
	Indexes []CreateIndex `json:",omitempty"` // of CREATE TABLE LIKE … WITH INDEXES
}

// ColumnSpec defines a new column. It has no id: Apply assigns one.
type ColumnSpec struct {
	Name string
	// CreateTable accepts any kind, AlterTable.Add only Static and Regular.
	Kind ColumnKind
	// Desc means descending order, for clustering columns only.
	Desc       bool
	Type       *types.Type
	Mask       *Mask       // nil means none
	Attributes *Attributes // nil means none
}

// AlterTable does one of: add columns, drop columns, restore or purge dropped columns, rename key columns, drop compact
// storage, set the mask or attributes of a column, set options, set extensions. The first that is present applies. The
// statements:
//
//	ADD, DROP, RENAME                             Add, Drop, Rename
//	UNDROP, PURGE                                 Undrop, Purge
//	DROP COMPACT STORAGE                          DropCompact
//	ALTER c MASKED WITH, DROP MASKED              Mask
//	ALTER c CHECK, SET DEFAULT; COMMENT ON COLUMN Attributes
//	WITH; COMMENT ON TABLE                        Set and Options
type AlterTable struct {
	Keyspace string
	Table    string
	IfExists bool

	Add []ColumnSpec // Static or Regular
	// AddIfNotExists skips columns that exist.
	AddIfNotExists bool

	Drop         []string
	DropIfExists bool
	// DropMicros is in µs since 1970: cells with timestamps up to it are dropped. The node that creates the change
	// reads its clock, so all nodes hide the same cells.
	DropMicros int64 // µs since 1970; cells with timestamps up to this one are dropped
	// DropUntil is the end of the grace of the dropped columns, in seconds since 1970. Zero means that they cannot be
	// restored.
	DropUntil int64 `json:",omitempty"`

	// Undrop names dropped columns to restore whose grace ends after At, and Purge dropped columns that can no longer
	// be restored from now on.
	Undrop []string `json:",omitempty"`
	Purge  []string `json:",omitempty"`
	At     int64    `json:",omitempty"` // when the change was created, in seconds since 1970

	// Renames apply in sequence: a later one refers to the names after the earlier ones.
	Rename []Rename

	DropCompact bool `json:",omitempty"` // DROP COMPACT STORAGE

	Mask       *MaskChange       `json:",omitempty"`
	Attributes *AttributesChange `json:",omitempty"`

	// Set names the options to copy from Options, as in CREATE TABLE … WITH, or LabelOption.
	Set []string // names of the options to take from Options
	// Options is only read for the names in Set.
	Options Options

	// Extend sets individual extensions and keeps the others, which Set cannot do. A nil value removes one.
	Extend map[string][]byte `json:",omitempty"`
}

// Rename changes the name of a key column or of a field of a type.
type Rename struct {
	// From and To are names as stored: unquoted and case-sensitive.
	From, To string
	Check    string `json:",omitempty"` // the constraints of the column with its new name
}

// DropTable drops a table with its data and indexes. Apply refuses to drop a table with views.
type DropTable struct {
	Keyspace string
	Table    string
	IfExists bool
	// Retention keeps the table restorable. nil removes it at once.
	Retention *Retention `json:",omitempty"`
}

// UndropTable restores a retained table under the name As. Its indexes keep their names unless these are in use.
type UndropTable struct {
	Keyspace string
	Table    StorageID // names of retained tables are not unique
	As       string
}

// PurgeTables removes retained tables. Several nodes may propose it, also based on an old schema: a table that was
// restored, or was dropped again, is ignored.
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

	// Field is the name of the new field, which is added at the end. It is ignored if FieldType is nil.
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
	// Column is the stored name. Hidden columns of compact tables are not found.
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

// CreateFunction creates or replaces a function. OrReplace and IfNotExists are mutually exclusive.
type CreateFunction struct {
	OrReplace   bool
	IfNotExists bool
	// Function may refer to older versions of user-defined types: Apply replaces them by the current ones.
	Function *Function
}

// CreateAggregate creates or replaces an aggregate. Aggregate.Returns is nil: Apply derives it from the functions.
type CreateAggregate struct {
	OrReplace   bool
	IfNotExists bool
	// Apply also checks that the aggregate's functions exist with matching arguments.
	Aggregate *Aggregate
}

// DropFunction drops a function or an aggregate.
type DropFunction struct {
	// Aggregate selects DROP AGGREGATE, which does not find functions, and vice versa.
	Aggregate bool
	Keyspace  string
	Name      string
	// Args is only used if HasArgs is set.
	Args     []*types.Type
	HasArgs  bool // otherwise the only function with this name
	IfExists bool
}

func (*CreateFunction) change()  {}
func (*CreateAggregate) change() {}
func (*DropFunction) change()    {}
