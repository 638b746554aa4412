package schema

import (
	"fmt"
	"strings"

	"cqld/types"
)

// Compact is the kind of a table's COMPACT STORAGE, or NotCompact. The values are stored and must not change.
type Compact uint8

// The kinds of compact tables. A dense table has clustering columns and one regular column, which may be hidden; a row
// exists while that column has a value. A sparse table has no clustering columns in CQL: as in Cassandra, its columns
// are stored as static columns beside a hidden clustering column and a hidden regular column, which DROP COMPACT
// STORAGE reveals.
const (
	NotCompact Compact = iota
	CompactDense
	CompactSparse
)

// Hides reports whether statements cannot name the column c, because t has compact storage. Hidden columns are stored.
func (t *Table) Hides(c *Column) bool {
	switch t.Compact {
	case CompactDense:
		// In a table without other columns, CompactColumns adds a value column of the empty type.
		return c.Kind == Regular && c.Type.IsEmpty()
	case CompactSparse:
		return c.Kind == Clustering || c.Kind == Regular
	}
	return false
}

// CompactValue returns the only regular column of a dense table, or nil for other tables. It may be hidden.
func (t *Table) CompactValue() *Column {
	if t.Compact != CompactDense || len(t.Regulars) != 1 {
		return nil
	}
	return t.Regulars[0]
}

// Flags returns the flags of t in the order of system_schema.tables. Drivers derive the kind of table from them.
//
//	ordinary table                      compound
//	dense, one clustering column        dense
//	dense, several clustering columns   compound, dense
//	sparse                              none
//	with counters                       also counter, before dense
func (t *Table) Flags() []string {
	var flags []string
	// Cassandra's comparator is a composite for several clustering columns, and for tables without COMPACT STORAGE.
	if t.Compact == NotCompact || t.Compact == CompactDense && len(t.Clustering) > 1 {
		flags = append(flags, "compound")
	}
	if t.IsCounter() {
		flags = append(flags, "counter")
	}
	if t.Compact == CompactDense {
		flags = append(flags, "dense")
	}
	return flags
}

// CompactColumns returns the columns of a new compact table, including hidden ones, and its kind. Key columns must come
// first in specs, which is modified. The error is *refused.Invalid.
//
//	(k, c, v), key (k, c)      dense
//	(k, c), key (k, c)         dense, with a hidden value
//	(k, v, w), key (k)         sparse: v and w static, with hidden column1 and value
//	(k, c, v, w), key (k, c)   error: two columns that are not part of the key
func CompactColumns(specs []ColumnSpec) ([]ColumnSpec, Compact, error) {
	// One pass collects the counts for the rules below, and reports the first invalid column.
	clustered, counters := false, false
	var others []string
	for i := range specs {
		s := &specs[i]
		switch s.Kind {
		case Clustering:
			clustered = true
		case Static:
			return nil, 0, invalidf("Static columns are not supported in COMPACT STORAGE tables")
		case Regular:
			if s.Type.MultiCell() {
				return nil, 0, invalidf("Non-frozen collections and UDTs are not supported with COMPACT STORAGE")
			}
			counters = counters || s.Type.Kind() == types.Counter
			others = append(others, s.Name)
		}
	}
	switch {
	case clustered && len(others) > 1:
		return nil, 0, invalidf("COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part "+
			"of the "+
			"PRIMARY KEY (got: %s)", strings.Join(others, ", "))
	// A cell of the empty type marks that the row exists.
	case clustered && len(others) == 0:
		return append(specs, ColumnSpec{Name: unusedName(specs, "value", false), Kind: Regular, Type: types.Empty()}),
			CompactDense, nil
	// The only column outside the key is the value.
	case clustered:
		return specs, CompactDense, nil
	case len(others) == 0:
		return nil, 0, invalidf("No definition found that is not part of the PRIMARY KEY")
	}
	return sparseColumns(specs, counters), CompactSparse, nil
}

// sparseColumns adds the hidden columns of a sparse table, and makes its regular columns static: in CQL, a partition
// has one row. Hidden columns have Cassandra's names, because DROP COMPACT STORAGE reveals them.
func sparseColumns(specs []ColumnSpec, counters bool) []ColumnSpec {
	// Counters cannot be mixed with other columns, including hidden ones (validateCounters).
	value := types.Native(types.Blob)
	if counters {
		value = types.Native(types.Counter)
	}
	hidden := []ColumnSpec{
		{Name: unusedName(specs, "column", true), Kind: Clustering, Type: types.Native(types.Text)},
		{Name: unusedName(specs, "value", false), Kind: Regular, Type: value},
	}
	for i := range specs {
		if specs[i].Kind == Regular {
			specs[i].Kind = Static
		}
	}
	return append(specs, hidden...)
}

// unusedName returns a name that no column has: base, or base followed by the first free number. If numbered is true,
// the name always has a number, as Cassandra's names of clustering columns do: column1, but value.
func unusedName(specs []ColumnSpec, base string, numbered bool) string {
	used := make(map[string]bool, len(specs))
	for _, s := range specs {
		used[s.Name] = true
	}
	// Numbers start at 1.
	if !numbered && !used[base] {
		return base
	}
	for n := 1; ; n++ {
		if name := fmt.Sprint(base, n); !used[name] {
			return name
		}
	}
}

// dropCompact reveals the hidden columns. Hides depends only on t.Compact, so no column changes. t is a copy for a
// change.
func (t *Table) dropCompact() error {
	if t.Compact == NotCompact {
		return invalidf("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE")
	}
	t.Compact = NotCompact
	return nil
}
