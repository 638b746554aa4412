// Package fragments shows what one replica has stored of a table, for SELECT … FROM MUTATION_FRAGMENTS(table): the
// start of each partition with its deletion, the static row, rows, changes of range tombstones, and the end, with the
// timestamps, times to live and tombstones of all cells.
//
// A Shape is a table that is derived from another one; its rows are the fragments. It reads no storage itself.
package fragments

import (
	"errors"

	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// The values of partition_region. Fragments sort by it.
const (
	regionStart = iota
	regionStatic
	regionRow
	regionEnd
)

// The values of position_weight.
const (
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

// source is the value of mutation_source. Storage merges memtables and sstables before rows can be read.
const source = "storage"

// Suffix distinguishes the name of a derived table.
const Suffix = "_$mutation_fragments"

// Shape is the table that MUTATION_FRAGMENTS derives from another one. It is immutable.
type Shape struct {
	Base  *schema.Table // whose rows are stored
	Table *schema.Table // whose rows are fragments

	metadata, kind, value *schema.Column
}

// NewShape returns the shape of the fragments of base, which must store rows.
func NewShape(base *schema.Table) *Shape {
	t := &schema.Table{ID: base.ID, StorageID: base.StorageID, Keyspace: base.Keyspace, Name: base.Name + Suffix,
		Options: base.Options,
		Virtual: true, Replication: base.Replication}
	s := &Shape{Base: base, Table: t}
	names := map[string]bool{}
	for _, c := range base.PartitionKey {
		t.PartitionKey = append(t.PartitionKey, s.column(names, c.Name, schema.PartitionKey, c.Type, c.Position, false))
	}
	clustering := func(name string, of *types.Type, desc bool) {
		t.Clustering = append(t.Clustering, s.column(names, name, schema.Clustering, of, len(t.Clustering), desc))
	}
	for _, c := range base.Clustering { // their names take precedence
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

// column returns a new column of the derived table. Key columns keep their names; another column with such a name is
// shown with an underscore in front.
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

// storedRows returns how many rows are read for a command. The first of them may be the last one of the previous page.
func storedRows(cmd *row.ReadCommand) uint32 {
	if cmd.Limits.Rows == 0 {
		return commandRows
	}
	return min(cmd.Limits.Rows, commandRows-1) + 1
}

// Page answers a command on the derived table with the fragments of one page of storage, among those that the command
// selects.
func (s *Shape) Page(cmd *row.ReadCommand, read Read) ([]byte, error) {
	if cmd.Reversed {
		return nil, ErrReversed
	}
	w := &writer{shape: s, slices: cmd.Slices, out: row.NewPageWriter(nil)}
	if len(cmd.Slices) == 0 {
		return w.out.Finish(false), nil
	}
	// At time zero nothing has expired, and no tombstone is old enough to be omitted.
	stored := row.ReadCommand{Table: s.Base.StorageID, Key: cmd.Key, Range: cmd.Range,
		Limits: row.Limits{Rows: storedRows(cmd)},
		Cancel: cmd.Cancel, Memory: cmd.Memory}
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
	if err == nil && w.shown == 0 && len(begin) > 0 {
		w.out = row.NewPageWriter(nil)
		return w.onlyEnd(&stored, read)
	}
	return shown, err
}

// storedStart returns the stored clustering from which the fragments from start on are read. rows is false if they
// include neither rows nor range tombstones.
func (s *Shape) storedStart(start []byte) (stored []byte, rows bool) {
	columns := s.Table.Clustering
	rest, err := columns[0].Type.SkipOrdered(start, false)
	if err != nil {
		return nil, true
	}
	region, rest, err := columns[1].Type.ConsumeOrdered(nil, rest, false)
	if err != nil || len(region) != 1 || int8(region[0]) < regionRow {
		return nil, true
	}
	if region[0] > regionRow {
		return nil, false
	}
	all := rest
	for _, c := range columns[2 : len(columns)-1] {
		after, err := c.Type.SkipOrdered(rest, c.Desc)
		if err != nil {
			if len(rest) > 0 { // a position between the rows with a prefix and those without
				rest = rest[1:]
			}
			break
		}
		rest = after
	}
	return all[:len(all)-len(rest)], true
}
