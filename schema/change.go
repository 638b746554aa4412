package schema

import (
	"cqld/ring"
	"cqld/types"
)

// Change is one step from a schema to the next. The sum is closed: *CreateKeyspace, *AlterKeyspace,
// *DropKeyspace, *CreateTable, *AlterTable, *DropTable, *CreateType, *AlterType, *DropType.
//
// A Change carries every id and time that it brings into the schema, so that applying it gives the
// same result on every node. It is immutable.
type Change interface{ change() }

// CreateKeyspace makes a keyspace.
type CreateKeyspace struct {
	Keyspace      string
	IfNotExists   bool
	Replication   ring.Replication
	DurableWrites bool
}

// AlterKeyspace changes what is not nil.
type AlterKeyspace struct {
	Keyspace      string
	IfExists      bool
	Replication   *ring.Replication
	DurableWrites *bool
	// Extend sets single extensions and leaves the others as they are; nil removes one.
	Extend map[string][]byte `json:",omitempty"`
}

// DropKeyspace drops a keyspace with everything in it.
type DropKeyspace struct {
	Keyspace string
	IfExists bool
}

// CreateTable makes a table. Columns of the keys stand in key order.
type CreateTable struct {
	Keyspace    string
	Table       string
	IfNotExists bool
	ID          UUID
	Columns     []ColumnSpec
	Options     Options
}

// ColumnSpec is a column to be made.
type ColumnSpec struct {
	Name string
	Kind ColumnKind
	Desc bool
	Type *types.Type
}

// AlterTable does one of: add columns, drop columns, rename key columns, set options, set extensions.
type AlterTable struct {
	Keyspace string
	Table    string
	IfExists bool

	Add            []ColumnSpec // Static or Regular
	AddIfNotExists bool

	Drop         []string
	DropIfExists bool
	DropMicros   int64 // cells written up to then are gone

	Rename []Rename

	Set     []string // names of the options to take from Options
	Options Options

	// Extend sets single extensions and leaves the others as they are, which Set cannot; nil removes one.
	Extend map[string][]byte `json:",omitempty"`
}

// Rename gives a key column, or a field of a type, a new name.
type Rename struct{ From, To string }

// DropTable drops a table with its data.
type DropTable struct {
	Keyspace string
	Table    string
	IfExists bool
}

// CreateType makes the user-defined type that Type is (not frozen).
type CreateType struct {
	IfNotExists bool
	Type        *types.Type
}

// AlterType adds a field (FieldType is not nil) or renames fields.
type AlterType struct {
	Keyspace string
	Name     string
	IfExists bool

	Field            string
	FieldType        *types.Type
	FieldIfNotExists bool

	Rename         []Rename
	RenameIfExists bool
}

// DropType drops a user-defined type that nothing uses.
type DropType struct {
	Keyspace string
	Name     string
	IfExists bool
}

func (*CreateKeyspace) change() {}
func (*AlterKeyspace) change()  {}
func (*DropKeyspace) change()   {}
func (*CreateTable) change()    {}
func (*AlterTable) change()     {}
func (*DropTable) change()      {}
func (*CreateType) change()     {}
func (*AlterType) change()      {}
func (*DropType) change()       {}
