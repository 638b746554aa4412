package schema

import (
	"crypto/md5"
	"slices"
	"strings"

	"cqld/ring"
	"cqld/types"
)

// ColumnID identifies a column permanently within its table, and is stored with its cells. RENAME keeps it, and a
// column that is dropped and added again under the same name gets the same id.
type ColumnID uint16

// ColumnKind is the role of a column in its table. The values are stored.
type ColumnKind uint8

// Kinds of columns, in the order in which SELECT * shows them.
const (
	// PartitionKey columns together determine the token.
	PartitionKey ColumnKind = iota + 1
	Clustering
	Static
	Regular
)

// String returns the kind as system_schema.columns shows it.
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

// Column is a column of a table. It is immutable, and shared by versions of its table.
type Column struct {
	ID ColumnID
	// Name is as stored: unquoted and case-sensitive.
	Name     string
	Kind     ColumnKind
	Position int // within the partition key or the clustering; otherwise -1
	// Desc means descending order, for clustering columns.
	Desc bool
	Type *types.Type
	// DroppedMicros is when a column with this name was last dropped, in µs since 1970. Cells with timestamps up to it
	// do not belong to this column. Zero means never.
	DroppedMicros int64
	Mask          *Mask       // nil if the column has none
	Attributes    *Attributes // nil if the column has none
}

// DroppedColumn records a dropped column, so that its cells stay hidden. Its type is expanded (ExpandUserTypes).
type DroppedColumn struct {
	Column
	// Micros is the time of the drop in µs since 1970.
	Micros int64
	// Until is the end of the grace in which the column can be restored, in seconds since 1970. Zero means that it
	// cannot be restored. Declared is then nil, otherwise the type that is not expanded.
	Until    int64
	Declared *types.Type
}

// Table is a table definition. It is immutable and sealed. A materialized view is a Table with a View.
type Table struct {
	// ID is visible to clients; WITH ID may set it.
	ID        UUID
	StorageID StorageID
	Keyspace  string
	Name      string

	// PartitionKey is in key order.
	PartitionKey []*Column
	// Clustering is in key order. It is empty if partitions have one row.
	Clustering []*Column
	// Statics and Regulars exclude key columns. Seal sorts both.
	Statics  []*Column // sorted by name
	Regulars []*Column // sorted by name
	// Dropped has one entry for each name, in the order of the first drops.
	Dropped []DroppedColumn
	// NextColumn is the id of the next new column.
	NextColumn ColumnID
	// Options is copied by value, but its maps are shared.
	Options Options
	Compact Compact
	// Virtual means that rows are computed, or come from other code than storage.
	Virtual bool
	View    *View // nil unless the table is a materialized view
	// Retention is set while the table is dropped and can be restored. Statements cannot name such a table.
	Retention *Retention
	// views contains the views of this table, by name. link sets it.
	views []*Table

	// Replication is a copy of the keyspace's replication, for the hot path.
	Replication ring.Replication

	indexes []*Index // sorted by name

	// Seal computes this field and all that follow. stored includes columns hidden by compact storage.
	stored []*Column // all columns, with those that a compact table hides
	// all is stored without hidden columns.
	all []*Column
	// byName finds the columns in all.
	byName map[string]*Column
	// byID has NextColumn elements.
	byID   []*Column      // index is the id; nil where dropped
	digest [md5.Size]byte // of the encoded table; the hash of a schema is computed from these
	// ordered is the result of OrderedPartitions.
	ordered bool
	masked  bool // a column has a mask
}

// Seal sorts the columns, builds the table's indexes and returns t. Every Table in a Schema is sealed. Seal must be
// called after each modification of the lists, before the table is shared.
//
//	stored   all columns: key, statics, regulars; the last two by name
//	all      the ones that statements can name
//	byName   of all
//	byID     of stored, so that hidden columns are found
//	digest   of the encoded table
func (t *Table) Seal() *Table {
	byName := func(a, b *Column) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(t.Statics, byName)
	slices.SortFunc(t.Regulars, byName)
	// Indexes are encoded in this order, on which the digest depends.
	t.sortIndexes()
	t.stored = slices.Concat(t.PartitionKey, t.Clustering, t.Statics, t.Regulars)
	// Clone, because DeleteFunc modifies its argument.
	t.all = slices.DeleteFunc(slices.Clone(t.stored), t.Hides)
	t.byName = make(map[string]*Column, len(t.all))
	t.byID = make([]*Column, t.NextColumn)
	for _, c := range t.all {
		t.byName[c.Name] = c
	}
	// Hidden columns are found by id, because their cells are stored.
	for _, c := range t.stored {
		t.byID[c.ID] = c
	}
	t.ordered = !t.Virtual && hasOrderedKey(t)
	t.masked = slices.ContainsFunc(t.all, func(c *Column) bool { return c.Mask != nil })
	if !t.Virtual { // virtual tables are not encoded
		t.digest = md5.Sum(marshal(encodeTable(t)))
	}
	return t
}

// StoredColumns returns all columns, with the columns that a compact table hides. Callers must not modify the slice.
func (t *Table) StoredColumns() []*Column { return t.stored }

// Columns returns the columns that statements can name, in the order of SELECT *. Callers must not modify the slice.
func (t *Table) Columns() []*Column { return t.all }

// Column returns the column with this name, or nil.
func (t *Table) Column(name string) *Column { return t.byName[name] }

// ColumnByID returns the column with this id, or nil if it was dropped or does not exist. It finds hidden columns as
// well. It is called for every cell, so it only indexes a slice.
func (t *Table) ColumnByID(id ColumnID) *Column {
	if int(id) < len(t.byID) {
		return t.byID[id]
	}
	return nil
}

// Masked reports whether a column of t has a mask. Requests on other tables skip all masking checks.
func (t *Table) Masked() bool { return t.masked }

// OrderedPartitions reports whether the nodes also keep the partition keys of t in byte order (storage's partition
// index). They do if the primary key is ("PartitionKey" text, "RowKey" text), with these names: the primary key of
// tables that the Azure Tables server creates.
func (t *Table) OrderedPartitions() bool { return t.ordered }

// hasOrderedKey reports whether t has the primary key of the Azure Tables server.
func hasOrderedKey(t *Table) bool {
	// Exactly one column of each kind, with this name and type.
	is := func(columns []*Column, name string) bool {
		return len(columns) == 1 && columns[0].Name == name && columns[0].Type.Kind() == types.Text
	}
	return is(t.PartitionKey, "PartitionKey") && is(t.Clustering, "RowKey")
}

// IsCounter reports whether c is a counter.
func (c *Column) IsCounter() bool { return c.Type.Kind() == types.Counter }

// IsCounter reports whether t is a counter table: all columns besides its key are counters. It remains one when all its
// counters are dropped. In earlier versions, a table could lose its counters and then other columns, so the last drop
// decides.
func (t *Table) IsCounter() bool {
	if len(t.Regulars)+len(t.Statics) > 0 {
		return hasCounters(t)
	}
	var last *DroppedColumn
	for i := range t.Dropped {
		if d := &t.Dropped[i]; last == nil || d.Micros >= last.Micros {
			last = d
		}
	}
	return last != nil && last.IsCounter()
}

// hasCounters reports whether t currently has a counter column. Unlike IsCounter, it ignores dropped columns: Apply
// uses it, and must accept the changes that earlier versions accepted.
func hasCounters(t *Table) bool {
	// Regulars first, because few counter tables have static columns.
	return slices.ContainsFunc(t.Regulars, (*Column).IsCounter) || slices.ContainsFunc(t.Statics, (*Column).IsCounter)
}
