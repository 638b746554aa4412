package index

import (
	"sync"

	"cqld/schema"
	"cqld/types"
	"cqld/types/similarity"
)

// Catalog caches the definitions of the indexes of the tables of a schema. Its methods are safe for concurrent use.
type Catalog struct {
	// table and more are the functions that NewCatalog received.
	table func(schema.StorageID) *schema.Table
	more  func(*schema.Table) []Definition
	// known maps *schema.Table, a version of a table with indexes, to its definitions (*[]Definition). Copying a map
	// for each table would cost quadratic time after each start. Pointers as keys need no allocation.
	known sync.Map
	mu    sync.Mutex // guards what follows
	added int        // entries stored since those of former versions were removed
	due   int        // added at which they are removed again
}

// NewCatalog returns the catalog of the tables that table finds; nil means that there is no such table. more, which may
// be nil, returns definitions that are not in schema.Table.Indexes, such as those of views; it must depend on the table
// only.
func NewCatalog(table func(schema.StorageID) *schema.Table, more func(*schema.Table) []Definition) *Catalog {
	return &Catalog{table: table, more: more}
}

// Of returns the definitions of the indexes of a table. The caller must not modify them. It returns nil for an unknown
// table and for one without indexes. It is called for each write and search, so the usual case is one load from a map.
func (c *Catalog) Of(id schema.StorageID) []Definition {
	t := c.table(id)
	if t == nil {
		return nil
	}
	if known, ok := c.known.Load(t); ok {
		return *known.(*[]Definition)
	}
	// Two callers may compute the same list. LoadOrStore below makes both of them return the same one.
	list := Definitions(t)
	if c.more != nil {
		list = append(list, c.more(t)...)
	}
	// Tables without indexes are not stored: their list costs little.
	if len(list) > 0 {
		known, _ := c.known.LoadOrStore(t, &list)
		c.removeFormer()
		return *known.(*[]Definition)
	}
	return nil
}

// removeFormer removes the definitions of dropped tables and of former versions of tables, each time that the number
// of entries has doubled since the last removal.
func (c *Catalog) removeFormer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.added++; c.added < c.due {
		return
	}
	// Cost: one pass over n entries follows n additions, so an addition costs a constant number of steps on average.
	left := 0
	c.known.Range(func(key, _ any) bool {
		// A table that changed is another *schema.Table, and the definitions of the former one are not used again.
		if t := key.(*schema.Table); c.table(t.StorageID) != t {
			c.known.Delete(t)
		} else {
			left++
		}
		return true
	})
	c.added, c.due = 0, left
}

// Definitions returns the definitions of the indexes of a table that Values maintains; it maintains none of static
// vectors.
func Definitions(t *schema.Table) (out []Definition) {
	for _, x := range t.Indexes() {
		if d, ok := DefinitionOf(t, x); ok {
			out = append(out, d)
		}
	}
	return out
}

// DefinitionOf returns the definition of an index of a table. ok is false for indexes that Values does not maintain.
// An index of a class that Values does not know is not refused here: its statements fail when the index is searched.
func DefinitionOf(t *schema.Table, x *schema.Index) (d Definition, ok bool) {
	c := t.ColumnByID(x.Column)
	switch {
	case c == nil:
		return d, false
	// Indexes of other classes store vectors as ordinary values, by their ordered form.
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
