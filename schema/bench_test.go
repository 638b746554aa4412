package schema

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"cqld/internal/tier"
	"cqld/types"
)

// withTables returns a schema with n tables of ten columns in one keyspace.
func withTables(b testing.TB, n int) *Schema {
	s := mustApply(b, Initial(), createKeyspace("ks"))
	k := s.keyspaces["ks"].clone()
	for i := range n {
		c := newTable(i, 10)
		t := &Table{ID: c.ID, StorageID: s.nextStorage + StorageID(i), Keyspace: "ks", Name: c.Table,
			Options:     c.Options,
			Replication: k.Replication}
		if err := t.addColumns(c.Columns); err != nil {
			b.Fatal(err)
		}
		k.tables[t.Name] = t.Seal()
	}
	return s.withNext(k, s.nextStorage+StorageID(n))
}

// newTable returns the change that creates the i-th table, with a number of columns.
func newTable(i, columns int) *CreateTable {
	c := &CreateTable{Keyspace: "ks", Table: fmt.Sprintf("t%d", i), ID: UUID{byte(i >> 16), byte(i >> 8), byte(i)},
		Options: DefaultOptions()}
	for j := range columns {
		kind := Regular
		if j == 0 {
			kind = PartitionKey
		}
		c.Columns = append(c.Columns, ColumnSpec{Name: fmt.Sprintf("c%d", j), Kind: kind,
			Type: types.Native(types.Int)})
	}
	return c
}

// addColumns returns a change that adds n columns to the table t0.
func addColumns(prefix string, n int) *AlterTable {
	c := &AlterTable{Keyspace: "ks", Table: "t0"}
	for _, name := range namesOf(prefix, n) {
		c.Add = append(c.Add, ColumnSpec{Name: name, Kind: Regular, Type: types.Native(types.Int)})
	}
	return c
}

// newIndex returns a change that creates an index on a column of the table t0.
func newIndex(name string, column int) *CreateIndex {
	return &CreateIndex{Keyspace: "ks", Table: "t0", Name: name, Class: LegacyIndex,
		Column: fmt.Sprintf("c%d", column), Target: IndexSimple}
}

// newView returns a change that creates a view of a table.
func newView(s *Schema, table, name string, id int) *CreateView {
	base := s.Table("ks", table)
	key := base.PartitionKey[0].ID
	where := []ViewCondition{{Columns: []ColumnID{key}, Operator: ViewNotNull, Text: "IS NOT NULL"}}
	return &CreateView{Keyspace: "ks", View: name, ID: UUID{1, byte(id >> 8), byte(id)}, Base: table, BaseID: base.ID,
		All:       true,
		Partition: []ColumnID{key}, Options: DefaultOptions(), Where: where}
}

// sized is a change of a schema; either of them has a size.
type sized struct {
	name string
	max  int
	make func(b testing.TB, n int) (*Schema, Change)
}

func sizedChanges() []sized {
	return []sized{
		{"CREATE TABLE beside tables", 10_000, func(b testing.TB, n int) (*Schema, Change) {
			return withTables(b, n), newTable(n, 10)
		}},
		{"DROP TABLE beside tables", 10_000, func(b testing.TB, n int) (*Schema, Change) {
			return withTables(b, n), &DropTable{Keyspace: "ks", Table: "t0"}
		}},
		{"ALTER TABLE beside tables", 10_000, func(b testing.TB, n int) (*Schema, Change) {
			return withTables(b, n), addColumns("d", 1)
		}},
		{"CREATE TABLE with columns", 10_000, func(b testing.TB, n int) (*Schema, Change) {
			return withTables(b, 1), newTable(1, n)
		}},
		{"ALTER TABLE ADD columns", 10_000, func(b testing.TB, n int) (*Schema, Change) {
			return withTables(b, 1), addColumns("d", n)
		}},
		{"ALTER TABLE DROP columns", 10_000, func(b testing.TB, n int) (*Schema, Change) {
			c := &AlterTable{Keyspace: "ks", Table: "t1"}
			for i := range n - 1 {
				c.Drop = append(c.Drop, fmt.Sprintf("c%d", i+1))
			}
			return mustApply(b, withTables(b, 1), newTable(1, n)), c
		}},
		{"CREATE TYPE with fields", 9_999, func(b testing.TB, n int) (*Schema, Change) {
			u := types.NewUDT("ks", "u", namesOf("f", n), repeated(types.Native(types.Int), n), false)
			return withTables(b, 1), &CreateType{Type: u}
		}},
		{"CREATE INDEX beside indexes", 1_000, func(b testing.TB, n int) (*Schema, Change) {
			s := mustApply(b, withTables(b, 0), newTable(0, n+2))
			for i := range n {
				s = mustApply(b, s, newIndex(fmt.Sprintf("i%d", i), i+1))
			}
			return s, newIndex("last", n+1)
		}},
		{"CREATE TABLE with indexes beside tables", 1_000, func(b testing.TB, n int) (*Schema, Change) {
			c := newTable(n, n+1)
			for i := range n {
				ix := newIndex("", i+1)
				ix.Table = c.Table
				c.Indexes = append(c.Indexes, *ix)
			}
			return withTables(b, n), c
		}},
		{"CREATE INDEX beside equal names", 1_000, func(b testing.TB, n int) (*Schema, Change) {
			c := newTable(0, n+2)
			for i := range c.Columns[1:] {
				// Names of indexes do not contain these characters.
				c.Columns[i+1].Name = strings.NewReplacer("0", "-", "1", "+").Replace(fmt.Sprintf("%012b", i))
			}
			for i := range n {
				ix := newIndex("", 0)
				ix.Column = c.Columns[i+1].Name
				c.Indexes = append(c.Indexes, *ix)
			}
			last := newIndex("", 0)
			last.Column = c.Columns[n+1].Name
			return mustApply(b, withTables(b, 0), c), last
		}},
		{"CREATE MATERIALIZED VIEW beside views", 1_000, func(b testing.TB, n int) (*Schema, Change) {
			s := withTables(b, 1)
			for i := range n {
				s = mustApply(b, s, newView(s, "t0", fmt.Sprintf("v%d", i), i))
			}
			return s, newView(s, "t0", "last", n)
		}},
		{"ALTER TABLE with views", 1_000, func(b testing.TB, n int) (*Schema, Change) {
			s := withTables(b, 1)
			for i := range n {
				s = mustApply(b, s, newView(s, "t0", fmt.Sprintf("v%d", i), i))
			}
			return s, addColumns("d", 1)
		}},
	}
}

func namesOf(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return names
}

func repeated(t *types.Type, n int) []*types.Type {
	all := make([]*types.Type, n)
	for i := range all {
		all[i] = t
	}
	return all
}

// BenchmarkApply applies each change to schemas of growing size, and compares the schemas for events.
func BenchmarkApply(b *testing.B) {
	for _, c := range sizedChanges() {
		for n := c.max / 100; n <= c.max; n *= 10 {
			b.Run(fmt.Sprintf("%s/n=%d", c.name, n), func(b *testing.B) {
				s, change := c.make(b, n)
				b.ReportAllocs()
				for b.Loop() {
					Diff(s, mustApply(b, s, change))
				}
			})
		}
	}
}

// TestChangesGrowLinearly checks that a change of four times the size, or of a schema of four times the size, allocates
// at most eight times as much. A change of one of n tables makes the same number of allocations for any n, and copies
// less than 200 bytes for each table.
func TestChangesGrowLinearly(t *testing.T) {
	tier.Long(t)
	for _, c := range sizedChanges() {
		small, large := changeBytes(t, &c, c.max/4), changeBytes(t, &c, c.max)
		if large > 8*small+1<<16 {
			t.Errorf("%s: %d bytes for %d, %d bytes for %d", c.name, small, c.max/4, large, c.max)
		}
	}
	for _, c := range sizedChanges()[:3] {
		s, change := c.make(t, 10_000)
		few, other := c.make(t, 100)
		less, more := testing.AllocsPerRun(5, func() { mustApply(t, few, other) }),
			testing.AllocsPerRun(5, func() { mustApply(t, s, change) })
		if more > 3*less {
			t.Errorf("%s: %v allocations beside 100 tables, %v beside 10,000", c.name, less, more)
		}
		if bytes := changeBytes(t, &c, 10_000); bytes > 200*10_000 {
			t.Errorf("%s: %d bytes beside 10,000 tables", c.name, bytes)
		}
	}
}

// changeBytes returns the bytes that a change of size n allocates.
func changeBytes(t *testing.T, c *sized, n int) uint64 {
	s, change := c.make(t, n)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Diff(s, mustApply(t, s, change))
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
