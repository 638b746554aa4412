// Package fragments shows what one replica has stored of a table, for SELECT … FROM MUTATION_FRAGMENTS(table): the
// start of each partition with its deletion, the static row, rows, changes of range tombstones, and the end, with the
// timestamps, times to live and tombstones of all cells.
//
// A Shape is a table that is derived from another one; its rows are the fragments. It reads no storage itself.
//
//	command on Shape.Table ─▶ Page ─▶ command on Shape.Base ─▶ Read ─▶ page of rows ─▶ page of fragments
package fragments

import (
	"errors"

	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// The values of partition_region. Fragments sort by it.
const (
	// The values are ascending in the order of the fragments of a partition.
	regionStart = iota
	regionStatic
	regionRow
	regionEnd
)

// The values of position_weight.
const (
	// before and after are positions of range tombstone changes: before or after all rows that begin with the
	// fragment's clustering prefix. Rows have position 0, at their clustering.
	before = -1
	at     = 0
	after  = 1
)

// The values of mutation_fragment_kind.
const (
	kindStart     = "partition start"
	kindStatic    = "static row"
	kindRow       = "clustering row"
	kindTombstone = "range tombstone change"
	kindEnd       = "partition end"
)

// source is the value of mutation_source. It is constant because storage merges memtables and sstables during reads,
// so the source of a fragment is unknown.
const source = "storage"

// Suffix distinguishes the name of a derived table.
const Suffix = "_$mutation_fragments"

// Shape is the table that MUTATION_FRAGMENTS derives from another one. It is immutable.
type Shape struct {
	Base  *schema.Table // whose rows are stored
	Table *schema.Table // whose rows are fragments

	// These are the regular columns of Table. All have the type text.
	metadata, kind, value *schema.Column
}

// NewShape returns the shape of the fragments of base, which must store rows. Its partition key equals the partition
// key of base. The clustering of a fragment is (mutation_source, partition_region, clustering of base,
// position_weight). Thus slices of fragments, and paging states, work as in any other table. base must not change
// while the shape is used.
func NewShape(base *schema.Table) *Shape {
	// Virtual means that storage does not contain the rows of this table. It keeps the ids and the replication of
	// base.
	t := &schema.Table{ID: base.ID, StorageID: base.StorageID, Keyspace: base.Keyspace, Name: base.Name + Suffix,
		Options: base.Options,
		Virtual: true, Replication: base.Replication}
	s := &Shape{Base: base, Table: t}
	// names contains the column names in use. The clustering columns of base reserve their names first, although
	// fragment columns precede them in the clustering.
	names := map[string]bool{}
	for _, c := range base.PartitionKey {
		t.PartitionKey = append(t.PartitionKey, s.column(names, c.Name, schema.PartitionKey, c.Type, c.Position, false))
	}
	clustering := func(name string, of *types.Type, desc bool) {
		t.Clustering = append(t.Clustering, s.column(names, name, schema.Clustering, of, len(t.Clustering), desc))
	}
	for _, c := range base.Clustering { // base columns keep their names
		names[c.Name] = true
	}
	clustering("mutation_source", types.Native(types.Text), false)
	clustering("partition_region", types.Native(types.Tinyint), false)
	for _, c := range base.Clustering {
		delete(names, c.Name)
		clustering(c.Name, c.Type, c.Desc)
	}
	clustering("position_weight", types.Native(types.Tinyint), false)
	regular := func(name string) *schema.Column {
		c := s.column(names, name, schema.Regular, types.Native(types.Text), -1, false)
		t.Regulars = append(t.Regulars, c)
		return c
	}
	s.metadata, s.kind, s.value = regular("metadata"), regular("mutation_fragment_kind"), regular("value")
	t.Seal()
	return s
}

// column returns a new column of the derived table, with the next id. If the name is in use, column prepends
// underscores until it is unique. names contains the names in use.
func (s *Shape) column(names map[string]bool, name string, kind schema.ColumnKind, t *types.Type, position int,
	desc bool) *schema.Column {
	for names[name] {
		name = "_" + name
	}
	names[name] = true
	c := &schema.Column{ID: s.Table.NextColumn, Name: name, Kind: kind, Position: position, Desc: desc, Type: t}
	s.Table.NextColumn++
	return c
}

// ErrReversed means that a command reads from the last fragment to the first.
var ErrReversed = errors.New("ORDER BY is not supported in SELECT FROM MUTATION_FRAGMENTS() statements")

// Read reads the page for a command from this node's storage.
type Read func(*row.ReadCommand) ([]byte, error)

// commandRows is how many rows one read of storage returns at most. The bytes of a page bound it, too.
const commandRows = 1000

// storedRows returns how many rows are read for a command. The first row may be the last row of the previous page,
// which emit drops. storedRows therefore adds one, so that each page makes progress.
func storedRows(cmd *row.ReadCommand) uint32 {
	if cmd.Limits.Rows == 0 {
		return commandRows
	}
	return min(cmd.Limits.Rows, commandRows-1) + 1
}

// Page answers a command on the derived table with the fragments of one page of storage, among those that the command
// selects. A page of fragments may contain more or fewer rows than the command requests: its size follows the page that
// storage returned, and the consumer applies limits. The error is ErrReversed or an error of read.
func (s *Shape) Page(cmd *row.ReadCommand, read Read) ([]byte, error) {
	if cmd.Reversed {
		return nil, ErrReversed
	}
	w := &writer{shape: s, slices: cmd.Slices, out: row.NewPageWriter(nil)}
	// A command without slices selects no row.
	if len(cmd.Slices) == 0 {
		return w.out.Finish(false), nil
	}
	// Now is zero, so storage treats no cell as expired and omits no tombstone as purgeable.
	stored := row.ReadCommand{Table: s.Base.StorageID, Key: cmd.Key, Range: cmd.Range,
		Limits: row.Limits{Rows: storedRows(cmd)},
		Cancel: cmd.Cancel, Memory: cmd.Memory}
	// begin is the clustering from which storage is read; nil means the first row. It stays nil for a scan of several
	// partitions, where only emit applies the slices.
	var begin []byte
	if cmd.SinglePartition() {
		var rows bool
		if begin, rows = s.storedStart(cmd.Slices[0].Start); !rows {
			return w.onlyEnd(&stored, read)
		}
	}
	stored.Slices = []row.Slice{{Start: begin}}
	page, err := read(&stored)
	if err != nil {
		return nil, err
	}
	shown, err := w.page(page)
	// Storage returned no row from begin on, but the partition may exist, and then its end fragment is due. A new
	// writer is required, because page has already finished the page of w.
	if err == nil && w.shown == 0 && len(begin) > 0 {
		w.out = row.NewPageWriter(nil)
		return w.onlyEnd(&stored, read)
	}
	return shown, err
}

// storedStart returns the stored clustering from which the fragments from start on are read. rows is false if they
// include neither rows nor range tombstones. start is the ordered form of a prefix of the fragments' clustering, such
// as the position of a paging state. Everything that cannot be decoded means the first row, which reads more than
// necessary and never less.
func (s *Shape) storedStart(start []byte) (stored []byte, rows bool) {
	columns := s.Table.Clustering
	// The first two components are mutation_source and partition_region.
	rest, err := columns[0].Type.SkipOrdered(start, false)
	if err != nil {
		return nil, true
	}
	region, rest, err := columns[1].Type.ConsumeOrdered(nil, rest, false)
	if err != nil || len(region) != 1 || int8(region[0]) < regionRow {
		return nil, true
	}
	// After the rows, only the end fragment remains.
	if region[0] > regionRow {
		return nil, false
	}
	// The components between the first two and position_weight are the clustering of a stored row.
	all := rest
	for _, c := range columns[2 : len(columns)-1] {
		after, err := c.Type.SkipOrdered(rest, c.Desc)
		if err != nil {
			if len(rest) > 0 { // the bound is a prefix, so it lies before or after all rows with that prefix
				rest = rest[1:]
			}
			break
		}
		rest = after
	}
	return all[:len(all)-len(rest)], true
}
