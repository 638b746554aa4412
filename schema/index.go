package schema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"cqld/schema/indexclass"
	"cqld/types"
)

// IndexClass is the implementation that CREATE INDEX names. One mechanism serves all classes; they differ in the
// supported conditions, in their options, and in how values become terms. The values are stored.
type IndexClass uint8

// Classes of indexes.
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

// IndexEntryBytes is the size, in bytes, of an indexed map entry in addition to its key and value: each of the two
// components of Cassandra's composite has 2 bytes of length and 1 end byte.
const IndexEntryBytes = 6

// IndexTarget is the indexed part of a column's value. The values are stored.
type IndexTarget uint8

// Targets of indexes. A single-cell column that is not a collection has the target IndexSimple, a non-frozen list or
// set IndexValues, a non-frozen map IndexValues, IndexKeys or IndexEntries, and a frozen collection IndexFull.
const (
	// IndexSimple is the value of a column with one value.
	IndexSimple IndexTarget = iota + 1
	IndexValues
	IndexKeys
	// IndexEntries are the pairs of key and value of a map.
	IndexEntries
	// IndexFull is the value of a frozen collection as a whole.
	IndexFull
)

// String returns the name of the target in CQL, or "" for IndexSimple.
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

// Kinds of indexes in system_schema.indexes. Cassandra's third kind, KEYS, does not occur.
const (
	IndexComposites = "COMPOSITES"
	IndexCustom     = "CUSTOM"
)

// IndexTargetOption is an option in system_schema.indexes that, like indexclass.OptionClass, CREATE INDEX computes.
// Users cannot set it.
const IndexTargetOption = "target"

// kind returns the kind of the indexes of a class.
func (c IndexClass) kind() string {
	if c == LegacyIndex {
		return IndexComposites
	}
	return IndexCustom
}

// Index is a secondary index of a table. It is immutable. Its column can be neither dropped nor renamed.
type Index struct {
	ID   StorageID // of its entries; from the same counter as the StorageIDs of tables
	Name string    // unique in the keyspace
	// Kind follows from Class: IndexComposites or IndexCustom.
	Kind  string // as system_schema.indexes shows it
	Class IndexClass
	// Column is an id, so the definition does not depend on the column's name.
	Column ColumnID
	Target IndexTarget
	// Options are those in WITH OPTIONS and, for a custom index, indexclass.OptionClass.
	Options map[string]string
}

// TermTypes returns the types of the indexed part of a column: one type, or the types of key and value for
// IndexEntries. The slice may be shared with the type: callers must not modify it.
func (ix *Index) TermTypes(column *types.Type) []*types.Type {
	//exhaustive:enforce
	switch ix.Target {
	// The value type is the last element: lists and sets have one, maps have two.
	case IndexValues:
		return column.Elems()[len(column.Elems())-1:]
	case IndexKeys:
		return column.Elems()[:1]
	case IndexEntries:
		return column.Elems()
	// The type of the whole value.
	case IndexSimple, IndexFull:
	}
	return []*types.Type{column}
}

// Literal reports whether a SASI index on col contains strings (indexclass.Literal).
func (ix *Index) Literal(col *Column) bool { return indexclass.Literal(ix.Options, col.Type, col.Desc) }

// sameExceptName reports whether both indexes have the same definition, apart from their ids and names. The class is
// among the options, or follows from Kind for legacy indexes.
func (ix *Index) sameExceptName(o *Index) bool {
	return ix.Kind == o.Kind && ix.Column == o.Column && ix.Target == o.Target && maps.Equal(ix.Options, o.Options)
}

// Indexes returns the indexes of t, sorted by name. Callers must not modify the slice.
func (t *Table) Indexes() []*Index { return t.indexes }

// Index returns the index with this name, or nil. It searches linearly, because tables have few indexes.
func (t *Table) Index(name string) *Index {
	for _, ix := range t.indexes {
		if ix.Name == name {
			return ix
		}
	}
	return nil
}

// IndexTargetText returns the indexed target of an index of t as DESCRIBE and system_schema.indexes show it: v,
// values(v), keys(m), entries(m) or full(f). It contains the column's current name, quoted where CQL requires it.
func (t *Table) IndexTargetText(ix *Index) string {
	name := ""
	// The column exists, because it cannot be dropped before its indexes.
	if c := t.ColumnByID(ix.Column); c != nil {
		name = types.QuoteName(c.Name)
	}
	if ix.Target == IndexSimple {
		return name
	}
	return ix.Target.String() + "(" + name + ")"
}

// ShownOptions returns the options of an index of t with the target, as system_schema.indexes shows them. The caller
// owns the map.
func (t *Table) ShownOptions(ix *Index) map[string]string {
	shown := make(map[string]string, len(ix.Options)+1)
	maps.Copy(shown, ix.Options)
	shown[IndexTargetOption] = t.IndexTargetText(ix)
	return shown
}

// Index returns the index with this name and its table, or nil. Names of indexes are unique in the keyspace.
func (k *Keyspace) Index(name string) (*Table, *Index) {
	// Statements that name an index are rare, so there is no map by name.
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
	// replaceTables updates byIndex together with the tables, so the index exists.
	i := slices.IndexFunc(t.indexes, func(ix *Index) bool { return ix.ID == id })
	return t, t.indexes[i]
}

// IndexesCalled returns the names of the keyspace's indexes that begin with prefix. The caller owns the map.
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

// unusedIndexName returns base or, if it is in use, base with the first free number, as in Cassandra. taken must
// contain all names in use that begin with base.
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

// IsDefaultIndexName reports whether name is a default name of an index on the column, with or without a number. A user
// may also have written the name.
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
	// Zero and leading zeros, which unusedIndexName never appends, are accepted as well.
	_, err := strconv.ParseUint(number, 10, 32)
	return err == nil
}

// defaultIndexName returns the default name of an index, without a number: table_column_idx. Characters that index
// names cannot contain are removed.
func defaultIndexName(t *Table, column string) string {
	// Quoted column names may contain any characters, index names only word characters (isWord).
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
