package schema

import (
	"slices"
	"testing"

	"cqld/types"
)

// TestFieldsCountWithAllColumns checks that a field of a user-defined type is refused if the table that uses the type
// would have too many parts, also in columns that do not use it, and that tables without the type do not matter.
func TestFieldsCountWithAllColumns(t *testing.T) {
	const large = 10_000 // parts
	number := types.Native(types.Int)
	tuple := types.NewTuple(slices.Repeat([]*types.Type{number}, large-1)...)
	used := types.NewUDT("k", "ty", []string{"a"}, []*types.Type{number}, true)
	var columns []*Column
	for range tablePartsMax / large {
		columns = append(columns, &Column{Type: tuple})
	}
	with := &Keyspace{tables: map[string]*Table{"t": {stored: append(slices.Clone(columns), &Column{Type: used})}}}
	without := &Keyspace{tables: map[string]*Table{"t": {stored: append(slices.Clone(columns), &Column{Type: tuple})}}}
	if err := with.CheckFieldParts("ty", tuple); err == nil {
		t.Error("a field beyond the bound is accepted")
	}
	if err := with.CheckFieldParts("ty", number); err != nil {
		t.Error(err)
	}
	if err := without.CheckFieldParts("ty", tuple); err != nil {
		t.Error(err)
	}
}
