package schema

import (
	"slices"
	"strings"

	"cqld/types"
)

func applyCreateIndex(s *Schema, c *CreateIndex) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil {
		return nil, invalidf("Keyspace '%s' doesn't exist", c.Keyspace)
	}
	t := k.tables[c.Table]
	if t == nil {
		return nil, invalidf("Table '%s' doesn't exist", c.Table)
	}
	if err := k.checkOwnDefinition(); err != nil {
		return nil, err
	}
	if _, taken := k.Index(c.Name); c.Name != "" && taken != nil {
		if c.IfNotExists {
			return s, nil
		}
		return nil, invalidf("Index '%s' already exists", c.Name)
	}
	ix, err := c.index(k, t)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(t.indexes, ix.sameExceptName); i >= 0 {
		if c.IfNotExists {
			return s, nil
		}
		return nil, invalidf("Index %s is a duplicate of existing index %s", ix.Name, t.indexes[i].Name)
	}
	if err := checkIndexName(t, ix.Name); err != nil {
		return nil, err
	}
	if err := t.checkIndexClass(ix); err != nil {
		return nil, err
	}
	ix.ID = s.nextStorage
	next := t.copyForChange()
	next.indexes = append(next.indexes, ix)
	return s.withNext(k.withTable(next.Seal()), s.nextStorage+1), nil
}

// index returns the index that c defines, without an id.
func (c *CreateIndex) index(k *Keyspace, t *Table) (*Index, error) {
	if t.IsCounter() {
		return nil, invalidf("Secondary indexes on counter tables aren't supported")
	}
	if t.View != nil {
		return nil, invalidf("Secondary indexes on materialized views aren't supported")
	}
	col := t.Column(c.Column)
	if col == nil {
		return nil, invalidf("Undefined column name %s in table %s.%s", types.QuoteName(c.Column), t.Keyspace, t.Name)
	}
	ix := &Index{Name: c.Name, Kind: c.Class.kind(), Class: c.Class, Column: col.ID, Target: c.Target, Options: c.Options}
	// A column with several values has the target values if none is given.
	if ix.Target == IndexSimple && col.Type.IsCollection() {
		ix.Target = IndexValues
	}
	if c.Class != LegacyIndex {
		if err := checkCustomColumn(col.Name); err != nil {
			return nil, err
		}
	}
	if err := t.checkIndexTarget(col, ix.Target); err != nil {
		return nil, err
	}
	if ix.Name == "" {
		ix.Name = k.indexName(t, col.Name)
	}
	return ix, nil
}

func checkIndexName(t *Table, name string) error {
	if !isWord(name) {
		return misconfiguredf("Illegal index name %s", name)
	}
	if len(name) > tableNameMax {
		return misconfiguredf("%s.%s: Index name must not be more than %d characters long (got %d characters for \"%s\")",
			t.Keyspace, t.Name, tableNameMax, len(name), name)
	}
	return nil
}

// checkIndexTarget returns an error if a column cannot be indexed, or not with this target.
func (t *Table) checkIndexTarget(col *Column, target IndexTarget) error {
	if hasKind(col.Type, types.Duration) {
		//exhaustive:ignore
		switch col.Type.Kind() {
		case types.List, types.Set, types.Map:
			return invalidf("Secondary indexes are not supported on collections containing durations")
		case types.Tuple:
			return invalidf("Secondary indexes are not supported on tuples containing durations")
		case types.UDT:
			return invalidf("Secondary indexes are not supported on UDTs containing durations")
		default:
			return invalidf("Secondary indexes are not supported on duration columns")
		}
	}
	if t.Compact != NotCompact && (col.Kind == PartitionKey || col.Kind == Clustering) {
		return invalidf("Secondary indexes are not supported on PRIMARY KEY columns in COMPACT STORAGE tables")
	}
	if value := t.CompactValue(); value != nil && value.Name == col.Name {
		return invalidf("Secondary indexes are not supported on compact value column of COMPACT STORAGE tables")
	}
	if col.Kind == PartitionKey && len(t.PartitionKey) == 1 {
		return invalidf("Cannot create secondary index on the only partition key column %s", types.QuoteName(col.Name))
	}
	collection := col.Type.IsCollection()
	switch {
	case target == IndexFull && !(collection && col.Type.Frozen()):
		return invalidf("full() indexes can only be created on frozen collections")
	case target != IndexFull && collection && col.Type.Frozen():
		return invalidf("Cannot create %s() index on frozen column %s. Frozen collections are immutable and must be fully "+
			"indexed by using the 'full(%s)' modifier", target, types.QuoteName(col.Name), types.QuoteName(col.Name))
	case target != IndexSimple && target != IndexFull && !collection:
		return invalidf("Cannot create %s() index on %s. Non-collection columns only support simple indexes", target, types.QuoteName(col.Name))
	case (target == IndexKeys || target == IndexEntries) && col.Type.Kind() != types.Map:
		return invalidf("Cannot create index on %s of column %s with non-map type", target, types.QuoteName(col.Name))
	case col.Type.Kind() == types.UDT && col.Type.MultiCell():
		return invalidf("Cannot create index on non-frozen UDT column %s", types.QuoteName(col.Name))
	}
	return nil
}

func applyDropIndex(s *Schema, c *DropIndex) (*Schema, error) {
	t, ix := s.Index(c.Keyspace, c.Name)
	if ix == nil {
		if c.IfExists {
			return s, nil
		}
		return nil, &NotFound{Keyspace: c.Keyspace, Name: c.Name, Index: true}
	}
	next := t.copyForChange()
	next.indexes = slices.DeleteFunc(next.indexes, func(o *Index) bool { return o == ix })
	return s.with(s.keyspaces[c.Keyspace].withTable(next.Seal())), nil
}

// sortIndexes sorts the indexes of t by name.
func (t *Table) sortIndexes() {
	slices.SortFunc(t.indexes, func(a, b *Index) int { return strings.Compare(a.Name, b.Name) })
}
