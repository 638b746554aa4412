package schema

import (
	"crypto/md5"
	"slices"
	"strings"

	"cqld/ring"
	"cqld/types"
)

// ColumnID names a column inside its table for ever: RENAME keeps it, and a column that is dropped
// and added again under the same name gets its old one back.
type ColumnID uint16

// ColumnKind is the part a column plays.
type ColumnKind uint8

// The kinds, in the order in which SELECT * shows them.
const (
	PartitionKey ColumnKind = iota + 1
	Clustering
	Static
	Regular
)

// String is the kind as system_schema.columns shows it.
func (k ColumnKind) String() string {
	//exhaustive:enforce
	switch k {
	case PartitionKey:
		return "partition_key"
	case Clustering:
		return "clustering"
	case Static:
		return "static"
	case Regular:
		return "regular"
	}
	return "unknown"
}

// Column is one column of a table. It is immutable.
type Column struct {
	ID       ColumnID
	Name     string
	Kind     ColumnKind
	Position int // within the partition key or the clustering; -1 else
	Desc     bool
	Type     *types.Type
	// DroppedMicros is when a column of this name was last dropped (µs); cells written up to then
	// do not belong to this column. Zero when it never was.
	DroppedMicros int64
}

// DroppedColumn remembers a column that is gone, so that its cells stay gone.
type DroppedColumn struct {
	Column
	Micros int64
}

// Table is one table. It is immutable; Seal has made its indexes.
type Table struct {
	ID        UUID
	StorageID StorageID
	Keyspace  string
	Name      string

	PartitionKey []*Column
	Clustering   []*Column
	Statics      []*Column // sorted by name
	Regulars     []*Column // sorted by name
	Dropped      []DroppedColumn
	NextColumn   ColumnID
	Options      Options
	Virtual      bool

	// Replication is that of the keyspace, kept here for the hot path.
	Replication ring.Replication

	all    []*Column
	byName map[string]*Column
	byID   []*Column      // index is the id; nil where dropped
	digest [md5.Size]byte // of the encoded table; a schema's version is made of these
	// ordered is what OrderedPartitions says.
	ordered bool
}

// Seal sorts the columns and builds the table's indexes; it returns t. Every Table in a Schema has
// been sealed.
func (t *Table) Seal() *Table {
	byName := func(a, b *Column) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(t.Statics, byName)
	slices.SortFunc(t.Regulars, byName)
	t.all = slices.Concat(t.PartitionKey, t.Clustering, t.Statics, t.Regulars)
	t.byName = make(map[string]*Column, len(t.all))
	t.byID = make([]*Column, t.NextColumn)
	for _, c := range t.all {
		t.byName[c.Name] = c
		t.byID[c.ID] = c
	}
	t.ordered = !t.Virtual && hasOrderedKey(t)
	if !t.Virtual { // those are not encoded
		t.digest = md5.Sum(marshal(encodeTable(t)))
	}
	return t
}

// Columns are all columns in the order of SELECT *; not to be changed.
func (t *Table) Columns() []*Column { return t.all }

// Column finds a column by name; nil when there is none.
func (t *Table) Column(name string) *Column { return t.byName[name] }

// ColumnByID finds a column by id; nil when it was dropped.
func (t *Table) ColumnByID(id ColumnID) *Column {
	if int(id) < len(t.byID) {
		return t.byID[id]
	}
	return nil
}

// OrderedPartitions says whether the nodes keep the partition keys of t in the order of their bytes, too
// (storage's partition index). They do when the primary key is ("PartitionKey" text, "RowKey" text), by
// these names: that of the tables that the Azure Tables server makes.
func (t *Table) OrderedPartitions() bool { return t.ordered }

func hasOrderedKey(t *Table) bool {
	is := func(columns []*Column, name string) bool {
		return len(columns) == 1 && columns[0].Name == name && columns[0].Type.Kind() == types.Text
	}
	return is(t.PartitionKey, "PartitionKey") && is(t.Clustering, "RowKey")
}

// IsCounter says whether t is a table of counters.
func (t *Table) IsCounter() bool {
	for _, c := range t.Regulars {
		if c.Type.Kind() == types.Counter {
			return true
		}
	}
	for _, c := range t.Statics {
		if c.Type.Kind() == types.Counter {
			return true
		}
	}
	return false
}
