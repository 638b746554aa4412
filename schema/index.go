package schema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"cqld/schema/indexclass"
	"cqld/types"
)

// IndexClass is the implementation that an index names. All of them are served by the same mechanism and differ in the
// conditions that they serve, in their options and in how values become terms. The values are stored.
type IndexClass uint8

// The classes.
const (
	LegacyIndex IndexClass = iota + 1 // CREATE INDEX without a class, or USING 'legacy_local_table'
	SAI                               // storage-attached index
	SASI                              // SSTable-attached secondary index
)

// String returns the short name of the class.
func (c IndexClass) String() string {
	//exhaustive:enforce
	switch c {
	case LegacyIndex:
		return "legacy_local_table"
	case SAI:
		return "sai"
	case SASI:
		return "sasi"
	}
	return "unknown"
}

// IndexTarget is the part of a column's value that is indexed. The values are stored.
type IndexTarget uint8

// The targets. A column with a single value has the target IndexSimple, a non-frozen list or set IndexValues, a
// non-frozen map one of IndexValues, IndexKeys and IndexEntries, and a frozen collection IndexFull.
const (
	// The value of a column with one value.
	IndexSimple IndexTarget = iota + 1
	IndexValues
	IndexKeys
	// Pairs of key and value of a map.
	IndexEntries
	// The value of a frozen collection as a whole.
	IndexFull
)

// String returns the name of the target as CQL has it. It is empty for IndexSimple.
func (t IndexTarget) String() string {
	//exhaustive:enforce
	switch t {
	case IndexSimple:
		return ""
	case IndexValues:
		return "values"
	case IndexKeys:
		return "keys"
	case IndexEntries:
		return "entries"
	case IndexFull:
		return "full"
	}
	return "unknown"
}

// The kinds of indexes as system_schema.indexes shows them. Cassandra's third one, KEYS, does not occur.
const (
	IndexComposites = "COMPOSITES"
	IndexCustom     = "CUSTOM"
)

// IndexTargetOption is an option of system_schema.indexes that CREATE INDEX computes, as indexclass.OptionClass. Users
// cannot set it.
const IndexTargetOption = "target"

// kind returns the kind of the indexes of a class.
func (c IndexClass) kind() string {
	if c == LegacyIndex {
		return IndexComposites
	}
	return IndexCustom
}

// Index is a secondary index of a table. It is immutable. A column that an index is on can neither be dropped nor
// renamed.
type Index struct {
	ID   StorageID // of its entries; from the same counter as the StorageIDs of tables
	Name string    // unique in the keyspace
	// Computed from Class, and shown as Cassandra shows it: IndexComposites or IndexCustom.
	Kind  string // as system_schema.indexes shows it
	Class IndexClass
	// By id, so that the definition does not change with the column's name.
	Column ColumnID
	Target IndexTarget
	// Options are the options in WITH OPTIONS and, for a custom index, indexclass.OptionClass.
	Options map[string]string
}

// TermTypes returns the types of the indexed part of a column: one, or the types of key and value for IndexEntries. The
// slice may be part of the type: callers must not modify it.
func (ix *Index) TermTypes(column *types.Type) []*types.Type {
	//exhaustive:enforce
	switch ix.Target {
	// A list or set has one part, a map has two: the value is the last one in all of them.
	case IndexValues:
		return column.Elems()[len(column.Elems())-1:]
	case IndexKeys:
		return column.Elems()[:1]
	case IndexEntries:
		return column.Elems()
	// The whole value.
	case IndexSimple, IndexFull:
	}
	return []*types.Type{column}
}

// Literal reports whether a SASI index on col contains strings (indexclass.Literal).
func (ix *Index) Literal(col *Column) bool { return indexclass.Literal(ix.Options, col.Type, col.Desc) }

// sameExceptName reports whether both indexes have the same definition apart from their ids and names. The class is
// among the options or, for legacy indexes, in the kind.
func (ix *Index) sameExceptName(o *Index) bool {
	return ix.Kind == o.Kind && ix.Column == o.Column && ix.Target == o.Target && maps.Equal(ix.Options, o.Options)
}

// equal reports whether both indexes are the same. An index that was dropped and created again has another id.
func (ix *Index) equal(o *Index) bool {
	return ix.ID == o.ID && ix.Name == o.Name && ix.sameExceptName(o)
}

// Indexes returns the indexes of t, sorted by name. Callers must not modify the slice.
func (t *Table) Indexes() []*Index { return t.indexes }

// Index returns the index with this name, or nil. Tables have few indexes.
func (t *Table) Index(name string) *Index {
	for _, ix := range t.indexes {
		if ix.Name == name {
			return ix
		}
	}
	return nil
}

// IndexTargetText returns the indexed target of an index of t as DESCRIBE and system_schema.indexes show it: v,
// values(v), keys(m), entries(m) or full(f). The name is quoted where CQL needs it. The name is the column's present
// one.
func (t *Table) IndexTargetText(ix *Index) string {
	name := ""
	// The column exists: it cannot be dropped before its indexes.
	if c := t.ColumnByID(ix.Column); c != nil {
		name = types.QuoteName(c.Name)
	}
	if ix.Target == IndexSimple {
		return name
	}
	return ix.Target.String() + "(" + name + ")"
}

// ShownOptions returns the options of an index of t as system_schema.indexes shows them: with the target. The map is
// new.
func (t *Table) ShownOptions(ix *Index) map[string]string {
	shown := make(map[string]string, len(ix.Options)+1)
	maps.Copy(shown, ix.Options)
	shown[IndexTargetOption] = t.IndexTargetText(ix)
	return shown
}

// Index returns the index with this name and its table, or nil. Names of indexes are unique in the keyspace.
func (k *Keyspace) Index(name string) (*Table, *Index) {
	// There is no map by name: statements that name an index are rare.
	for _, t := range k.tables {
		if ix := t.Index(name); ix != nil {
			return t, ix
		}
	}
	return nil, nil
}

// Index returns the index with this name and its table, or nil.
func (s *Schema) Index(keyspace, name string) (*Table, *Index) {
	if k := s.keyspaces[keyspace]; k != nil {
		return k.Index(name)
	}
	return nil, nil
}

// IndexByStorage returns the index with this number in storage and its table, or nil.
func (s *Schema) IndexByStorage(id StorageID) (*Table, *Index) {
	t := s.byIndex[id]
	if t == nil {
		return nil, nil
	}
	// byIndex and the tables are built together (replaceTables), so the index is found.
	i := slices.IndexFunc(t.indexes, func(ix *Index) bool { return ix.ID == id })
	return t, t.indexes[i]
}

// IndexesCalled returns the names of the indexes in the keyspace that begin with a prefix. An empty prefix returns all.
// The map is new.
func (k *Keyspace) IndexesCalled(prefix string) map[string]bool {
	names := map[string]bool{}
	for _, t := range k.tables {
		for _, ix := range t.indexes {
			if strings.HasPrefix(ix.Name, prefix) {
				names[ix.Name] = true
			}
		}
	}
	return names
}

// unusedIndexName returns the name of a new index without a name: Cassandra's, with a number if that name is in use:
// base, base_1, base_2. taken must contain all names that begin with base.
//
//	base         taken                  result
//	t_c_idx      none                   t_c_idx
//	t_c_idx      t_c_idx                t_c_idx_1
//	t_c_idx      t_c_idx, t_c_idx_1     t_c_idx_2
func unusedIndexName(base string, taken map[string]bool) string {
	name := base
	for n := 1; taken[name]; n++ {
		name = base + "_" + strconv.Itoa(n)
	}
	return name
}

// IsDefaultIndexName reports whether an index on a column of t has the name that CREATE INDEX chooses, also with a
// number. It cannot know whether the user wrote the name.
//
//	t_c_idx     yes
//	t_c_idx_2   yes
//	t_c_idx_a   no
func IsDefaultIndexName(t *Table, col *Column, name string) bool {
	base := defaultIndexName(t, col.Name)
	number, ok := strings.CutPrefix(name, base+"_")
	if !ok {
		return name == base
	}
	// unusedIndexName appends numbers from 1 on; zero and leading zeros are accepted here as well.
	_, err := strconv.ParseUint(number, 10, 32)
	return err == nil
}

// defaultIndexName returns the name that CREATE INDEX chooses, without a number: table_column_idx. Characters that
// names of indexes cannot have are left out.
func defaultIndexName(t *Table, column string) string {
	// Quoted names of columns may contain any characters, names of indexes only word characters (isWord).
	word := func(text string) string {
		return strings.Map(func(r rune) rune {
			if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
				return r
			}
			return -1
		}, text)
	}
	return word(t.Name) + "_" + word(column) + "_idx"
}

// dependent returns the names of the indexes on a column, separated by commas, or an empty string.
func (t *Table) dependent(column ColumnID) string {
	var names []string
	for _, ix := range t.indexes {
		if ix.Column == column {
			names = append(names, ix.Name)
		}
	}
	return strings.Join(names, ", ")
}
