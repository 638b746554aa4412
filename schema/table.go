package schema

import (
	"crypto/md5"
	"slices"
	"strings"

	"cqld/ring"
	"cqld/types"
)

// ColumnID identifies a column permanently within its table. RENAME keeps it, and a column that is dropped and added
// again under the same name keeps its id. Cells are stored with it.
type ColumnID uint16

// ColumnKind is the role of a column in its table. The values are stored.
type ColumnKind uint8

// The kinds, in the order in which SELECT * shows them.
const (
	// All columns of the partition key determine the token.
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
	// As stored: unquoted, with case.
	Name     string
	Kind     ColumnKind
	Position int // within the partition key or the clustering; otherwise -1
	// Descending order of a clustering column.
	Desc bool
	Type *types.Type
	// DroppedMicros is the time (µs) when a column with this name was last dropped. Cells written up to then do not
	// belong to this column. Zero means that it was never dropped.
	DroppedMicros int64
	Mask          *Mask       // nil if the column has none
	Attributes    *Attributes // nil if the column has none
}

// DroppedColumn records a dropped column, so that its cells remain hidden. Its type is expanded (ExpandUserTypes).
type DroppedColumn struct {
	Column
	// The time of the drop in µs since 1970.
	Micros int64
}

// Table is a table definition. It is immutable; Seal has built its indexes. A materialized view is a Table with a View.
type Table struct {
	// Known to clients; WITH ID may set it.
	ID        UUID
	StorageID StorageID
	Keyspace  string
	Name      string

	// In key order.
	PartitionKey []*Column
	// In key order; empty if partitions have one row.
	Clustering []*Column
	// Without key columns. Seal sorts both lists.
	Statics  []*Column // sorted by name
	Regulars []*Column // sorted by name
	// One for each name, in the order of the first drops.
	Dropped []DroppedColumn
	// The id of the next new column.
	NextColumn ColumnID
	// Copied by value; its maps are shared.
	Options Options
	Compact Compact
	// Its rows are computed, or come from other code than storage.
	Virtual bool
	View    *View // nil unless the table is a materialized view
	// Retention is set while the table is dropped and can be restored. Such a table has no name for statements.
	Retention *Retention
	// The views of this table, by name; set by link.
	views []*Table

	// Replication is the replication of the keyspace, copied here for the hot path.
	Replication ring.Replication

	indexes []*Index // sorted by name

	// Computed by Seal, like all fields below.
	stored []*Column // all columns, with those that a compact table hides
	// The columns in stored without hidden ones.
	all []*Column
	// Of all.
	byName map[string]*Column
	// It has NextColumn elements.
	byID   []*Column      // index is the id; nil where dropped
	digest [md5.Size]byte // of the encoded table; the hash of a schema is computed from these
	// ordered is the result of OrderedPartitions.
	ordered bool
	masked  bool // a column has a mask
}

// Seal sorts the columns, builds the table's indexes and returns t. Every Table in a Schema is sealed. It must be
// called after every change of the lists, on a table that is not shared.
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
	// Indexes are encoded in this order, and the digest depends on it.
	t.sortIndexes()
	t.stored = slices.Concat(t.PartitionKey, t.Clustering, t.Statics, t.Regulars)
	// The clone is for DeleteFunc, which would change stored.
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

// ColumnByID returns the column with this id, or nil if it was dropped or does not exist yet. Hidden columns are
// included. The lookup is an index into a slice, because it is done for every cell.
func (t *Table) ColumnByID(id ColumnID) *Column {
	if int(id) < len(t.byID) {
		return t.byID[id]
	}
	return nil
}

// Masked reports whether a column of t has a mask. Most requests need no other check.
func (t *Table) Masked() bool { return t.masked }

// OrderedPartitions reports whether the nodes also keep the partition keys of t in byte order (storage's partition
// index). They do if the primary key is ("PartitionKey" text, "RowKey" text), with these names: the primary key of
// tables that the Azure Tables server creates.
func (t *Table) OrderedPartitions() bool { return t.ordered }

// hasOrderedKey reports whether t has the primary key of the Azure Tables server.
func hasOrderedKey(t *Table) bool {
	// Exactly one column of each kind.
	is := func(columns []*Column, name string) bool {
		return len(columns) == 1 && columns[0].Name == name && columns[0].Type.Kind() == types.Text
	}
	return is(t.PartitionKey, "PartitionKey") && is(t.Clustering, "RowKey")
}

// IsCounter reports whether c is a counter.
func (c *Column) IsCounter() bool { return c.Type.Kind() == types.Counter }

// IsCounter reports whether t is a counter table: one column is a counter, and therefore all are besides the key. A
// table remains a counter table when all of its counters are dropped. Tables of earlier versions may have lost counters
// and then other columns, so the last drop decides.
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

// hasCounters reports whether t has a column that is a counter. Apply decides by it, and not by dropped columns: it
// must accept what it has accepted before.
func hasCounters(t *Table) bool {
	// Regulars first: most tables of counters have no static ones.
	return slices.ContainsFunc(t.Regulars, (*Column).IsCounter) || slices.ContainsFunc(t.Statics, (*Column).IsCounter)
}
