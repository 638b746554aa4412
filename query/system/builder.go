package system

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sort"

	"cqld/internal/wire"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// builder collects the rows of one table. It serves one command and is used by one goroutine. After the first error it
// continues to collect, and yield returns the error. It does what storage does for stored rows: it makes keys and
// clusterings from values, and sorts.
type builder struct {
	table *schema.Table
	// Rows that cmd does not read may be added, too; the caller removes them.
	cmd *row.ReadCommand
	// In the order of the first row of each, sorted by yield.
	partitions []*row.Partition
	// By the serialized key.
	byKey map[string]*row.Partition
	limit uint32 // rows after which eachTable ends; zero means none
	read  uint32 // rows added that cmd reads
	cut   bool   // rows that cmd reads were omitted after those added
	// The first error, a bug in this package.
	err error
}

// newBuilder returns a builder without rows.
func newBuilder(t *schema.Table, cmd *row.ReadCommand) *builder {
	return &builder{table: t, cmd: cmd, byKey: map[string]*row.Partition{}}
}

// readsPartition reports whether the command reads the partition whose only key column has this value. It saves the
// work for rows that the command would not return.
func (b *builder) readsPartition(key string) bool {
	return b.cmd.ReadsPartition(row.NewPartitionKey([]byte(key)))
}

// readsPrefix reports whether the command reads rows whose first clustering column has this value. It ignores the
// partition. It is only for tables whose first clustering column is a text.
func (b *builder) readsPrefix(first string) bool {
	// A slice of the rows with this prefix.
	c := b.table.Clustering[0]
	return b.cmd.ReadsSlice(row.SliceOf(c.Type.AppendOrdered(nil, []byte(first), c.Desc)))
}

// eachTable calls f for the tables and views of a keyspace, in the order of their names. The virtual table must be
// clustered by table name after the keyspace name: eachTable skips tables that the command does not read, and stops
// when more than b.limit rows were added. A table with more rows than the limit is added as a whole, so a page may be
// larger.
func (b *builder) eachTable(k *schema.Keyspace, f func(*schema.Table)) {
	// Sorted by name, which is the order of the clustering.
	all := k.Tables()
	b.eachNamed(nil, len(all), func(i int) string { return all[i].Name }, func(i int) { f(all[i]) })
}

// eachColumn is eachTable for n columns of a table, whose names are the second component of the clustering. t's name
// must precede them in the clustering.
func (b *builder) eachColumn(t *schema.Table, n int, name func(int) string, f func(int)) {
	// Columns are in the order of the table, the rows in the order of names.
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(name(x), name(y)) })
	b.eachNamed([]string{t.Name}, n, func(i int) string { return name(order[i]) }, func(i int) { f(order[i]) })
}

// eachNamed calls f for those of n elements, ascending by name, that may have rows that the command reads. Their name
// follows the names before it in the clustering. All tables of system_schema are sorted by name within a keyspace, so a
// binary search finds the first element, and a page costs its own rows only. f must add rows of element i only, so that
// a page that is cut before i contains all rows before it.
func (b *builder) eachNamed(before []string, n int, name func(int) string, f func(int)) {
	// No slice: the command reads no rows.
	if len(b.cmd.Slices) == 0 {
		return
	}
	var prefix []byte
	for i, text := range before {
		prefix = b.table.Clustering[i].Type.AppendOrdered(prefix, []byte(text), b.table.Clustering[i].Desc)
	}
	// outer is the length of the names before; the buffer is reused for each element.
	c, outer := b.table.Clustering[len(before)], len(prefix)
	rows := func(i int) row.Slice {
		prefix = c.Type.AppendOrdered(prefix[:outer], []byte(name(i)), c.Desc)
		end := len(prefix)
		prefix = append(prefix, 0xFF) // row.SliceOf in one buffer
		return row.Slice{Start: prefix[:end:end], End: prefix}
	}
	first, last := b.cmd.Slices[0], b.cmd.Slices[len(b.cmd.Slices)-1]
	// Slices are ascending and disjoint, so the first one begins the range and the last one ends it.
	from := sort.Search(n, func(i int) bool { return bytes.Compare(first.Start, rows(i).End) < 0 })
	for i := from; i < n && !b.cut; i++ {
		of := rows(i)
		if last.End != nil && bytes.Compare(of.Start, last.End) >= 0 {
			return
		}
		// Between two slices of the command.
		if !b.cmd.ReadsSlice(of) {
			continue
		}
		// The limit is checked before an element, never within one, so that no row of it is lost.
		if b.cut = b.limit > 0 && b.read > b.limit; !b.cut {
			f(i)
		}
	}
}

// values contains a row's values in wire form by column name; a missing or nil value is null. The slices belong to the
// row afterwards. An empty, non-nil value is an empty text or blob.
type values map[string][]byte

// add adds a row. A value for a column that the table does not have, or a missing key, is a bug in this package; yield
// returns it as an error. Timestamps of rows are 0: generated rows are never compared with written ones.
func (b *builder) add(v values) {
	// Names are checked for each row: the tables are defined elsewhere.
	for name := range v {
		if b.table.Column(name) == nil {
			b.fail("no column %s", name)
			return
		}
	}
	p := b.partition(v)
	r := row.NewRow()
	// Not nil: nil is the clustering of a static row.
	r.Clustering = []byte{}
	for _, c := range b.table.Clustering {
		if v[c.Name] == nil {
			b.fail("no value for %s", c.Name)
			return
		}
		r.Clustering = c.Type.AppendOrdered(r.Clustering, v[c.Name], c.Desc)
	}
	// A row whose values are all null exists.
	r.Liveness = row.Liveness{Timestamp: 0}
	// Virtual tables have no static columns.
	for _, c := range b.table.Regulars {
		if value := v[c.Name]; value != nil {
			r.Cells = appendCells(r.Cells, c, value)
		}
	}
	// Cells are expected in the order of their columns and paths.
	r.Sort()
	p.Rows = append(p.Rows, *r)
	// Only rows that the command returns count for the limit.
	if slices.ContainsFunc(b.cmd.Slices, func(s row.Slice) bool { return s.Contains(r.Clustering) }) &&
		b.cmd.ReadsPartition(p.Key) {
		b.read++
	}
}

// fail records the first error.
func (b *builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("system: rows of %s.%s: %s", b.table.Keyspace, b.table.Name, fmt.Sprintf(format, args...))
	}
}

// partition returns the partition of a row. A key of several columns is a composite, like the key of a stored table. A
// composite has for each component its length in 2 bytes, its bytes, and a zero byte: (ab, c) is 0002 6162 00 0001 63
// 00.
func (b *builder) partition(v values) *row.Partition {
	var key []byte
	for _, c := range b.table.PartitionKey {
		if v[c.Name] == nil {
			b.fail("no value for %s", c.Name)
		}
		// A single column is the key itself.
		if len(b.table.PartitionKey) == 1 {
			key = v[c.Name]
			break
		}
		key = wire.AppendShortBytes(key, v[c.Name])
		key = append(key, 0)
	}
	p := b.byKey[string(key)]
	if p == nil {
		p = &row.Partition{Key: row.NewPartitionKey(key), Header: *row.NewRow()}
		b.byKey[string(key)] = p
		b.partitions = append(b.partitions, p)
	}
	return p
}

// appendCells appends the cells of a value: one, or one for each element. Elements of a set have their value in the
// path; a map has the key there. Lists are not among these tables' types. A null element would end the loop early, but
// generated collections have none.
func appendCells(cells []row.Cell, c *schema.Column, value []byte) []row.Cell {
	if !c.Type.MultiCell() {
		return append(cells, row.Cell{Column: c.ID, Value: value})
	}
	// The wire form of a collection: its length, and its elements with their lengths.
	cursor := wire.NewCursor(value)
	for n := cursor.Int32(); n > 0 && cursor.Err() == nil; n-- {
		element := cursor.Bytes()
		cell := row.Cell{Column: c.ID, Path: c.Type.Elems()[0].AppendOrdered(nil, element, false)}
		if c.Type.Kind() == types.Map {
			cell.Value = cursor.Bytes()
		}
		cells = append(cells, cell)
	}
	return cells
}

// yield passes the partitions with sorted rows to f. more means that the command reads further rows. Partitions come in
// the order of tokens, as from replicas. It must be called once. f owns a partition. After false from f, more says
// nothing about the partitions that were left out.
func (b *builder) yield(f func(*row.Partition) bool) (more bool, err error) {
	if b.err != nil {
		return false, b.err
	}
	slices.SortFunc(b.partitions, func(x, y *row.Partition) int {
		return cmp.Or(cmp.Compare(x.Key.Token, y.Key.Token), bytes.Compare(x.Key.Bytes, y.Key.Bytes))
	})
	for _, p := range b.partitions {
		slices.SortFunc(p.Rows, func(x, y row.Row) int { return bytes.Compare(x.Clustering, y.Clustering) })
		if !f(p) {
			break
		}
	}
	return b.cut, nil
}
