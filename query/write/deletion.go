package write

import (
	"cqld/cql"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// compileDeletion compiles one target of DELETE: a column, c[key] or c.field.
func compileDeletion(in *term.Compiler, t cql.DeleteTarget) (operation, error) {
	c := operationCompiler{in}
	col, err := c.Column(t.Column)
	if err != nil {
		return nil, err
	}
	if col.Kind == schema.PartitionKey || col.Kind == schema.Clustering {
		return nil, invalid.Errorf("Invalid identifier %s for deletion (should not be a PRIMARY KEY part)", col.Name)
	}
	typ := col.Type
	// c[key] and c.field exclude each other in the grammar.
	switch {
	case t.Key != nil:
		return c.elementDeletion(col, t.Key)
	// The checks equal those for SET c.field, with the messages for deletions.
	case t.Field != "":
		if typ.Kind() != types.UDT {
			return nil, invalid.Errorf("Invalid field deletion operation for non-UDT column %s", col.Name)
		}
		if !typ.MultiCell() {
			return nil, invalid.Errorf("Frozen UDT column %s does not support field deletions", col.Name)
		}
		i := typ.FieldIndex(t.Field)
		if i < 0 {
			return nil, invalid.Errorf("UDT column %s does not have a field named %s", col.Name, t.Field)
		}
		return &deleteField{target{col}, i}, nil
	}
	// Deleting a whole column is valid for every type, also for frozen ones and counters.
	return &deleteColumn{target{col}}, nil
}

// elementDeletion compiles c[key] as a target of DELETE. key is an index of a list, an element of a set or a key of a
// map.
func (c operationCompiler) elementDeletion(col *schema.Column, key cql.Term) (operation, error) {
	typ := col.Type
	if !typ.Kind().IsCollection() {
		return nil, invalid.Errorf("Invalid deletion operation for non collection column %s", col.Name)
	}
	if !typ.MultiCell() {
		return nil, invalid.Errorf("Invalid deletion operation for frozen collection column %s", col.Name)
	}
	// The receivers have Cassandra's names: key(c), idx(c) and value(c).
	spec := c.Receiver("key("+col.Name+")", typ.Elems()[0])
	switch typ.Kind() {
	case types.List:
		spec = c.Receiver("idx("+col.Name+")", types.Native(types.Int))
	case types.Set:
		spec = c.Receiver("value("+col.Name+")", typ.Elems()[0])
	}
	k, err := c.Term(key, spec)
	if err != nil {
		return nil, err
	}
	// Only a deletion by list index must read. For sets and maps, the key is the path of the cell.
	if typ.Kind() == types.List {
		return &deleteIndex{readingTarget{target{col}}, k}, nil
	}
	return &deleteKey{target{col}, k}, nil
}
