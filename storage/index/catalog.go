package index

import (
	"maps"
	"sync"
	"sync/atomic"

	"cqld/schema"
	"cqld/types"
	"cqld/types/similarity"
)

// Catalog has the definitions of the indexes of the tables of a schema. Its methods are safe for concurrent use.
type Catalog struct {
	table func(schema.StorageID) *schema.Table
	more  func(*schema.Table) []Definition
	// known, replaced and never changed, are the definitions of tables with indexes.
	known atomic.Pointer[map[schema.StorageID]defined]
	mu    sync.Mutex // held by those who replace known
}

// defined is a table with its definitions.
type defined struct {
	table *schema.Table
	list  []Definition
}

// NewCatalog returns the catalog of the tables that table finds; nil means that there is no such table. more, which may be nil,
// returns definitions that are not in schema.Table.Indexes, such as those of views; it must depend on the table only.
func NewCatalog(table func(schema.StorageID) *schema.Table, more func(*schema.Table) []Definition) *Catalog {
	return &Catalog{table: table, more: more}
}

// Of returns the definitions of the indexes of a table. The caller must not modify them.
func (c *Catalog) Of(id schema.StorageID) []Definition {
	t := c.table(id)
	known := c.known.Load()
	if t == nil {
		return nil
	}
	if known != nil {
		if d, ok := (*known)[id]; ok && d.table == t {
			return d.list
		}
	}
	if len(t.Indexes()) == 0 && c.more == nil && known == nil {
		return nil
	}
	list := Definitions(t)
	if c.more != nil {
		list = append(list, c.more(t)...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[schema.StorageID]defined{}
	if p := c.known.Load(); p != nil {
		next = maps.Clone(*p)
	}
	next[id] = defined{t, list}
	for other := range next {
		if c.table(other) == nil {
			delete(next, other) // it was dropped
		}
	}
	c.known.Store(&next)
	return list
}

// Definitions returns the definitions of the indexes of a table, as far as Values keeps them: those of static vectors it does not.
func Definitions(t *schema.Table) (out []Definition) {
	for _, x := range t.Indexes() {
		if d, ok := DefinitionOf(t, x); ok {
			out = append(out, d)
		}
	}
	return out
}

// DefinitionOf returns the definition of an index of a table. It is not ok for indexes that Values does not keep.
func DefinitionOf(t *schema.Table, x *schema.Index) (d Definition, ok bool) {
	c := t.ColumnByID(x.Column)
	switch {
	case c == nil:
		return d, false
	case c.Type.Kind() == types.Vector && x.Class == schema.SAI:
		f, _ := similarity.Of(x.Options)
		return VectorDefinition(x.ID, t, x.Column, f)
	}
	part := Cell
	switch x.Target {
	case schema.IndexValues:
		part = Elements
	case schema.IndexKeys:
		part = Keys
	case schema.IndexEntries:
		part = Entries
	}
	if d, ok = ColumnDefinition(x.ID, t, x.Column, part); ok {
		d.Terms = analyzed(d.Terms, x, c.Type)
	}
	return d, ok
}
