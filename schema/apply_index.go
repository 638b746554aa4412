package schema

import (
	"slices"
	"strings"

	"cqld/schema/indexclass"
	"cqld/schema/refused"
	"cqld/types"
)

// applyCreateIndex adds an index to a table. Indexes and tables share the counter of storage ids, so their ids differ.
func applyCreateIndex(s *Schema, c *CreateIndex) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil {
		return nil, invalidf("Keyspace '%s' doesn't exist", c.Keyspace)
	}
	// Views are found here as well; index refuses them.
	t := k.tables[c.Table]
	if t == nil {
		return nil, invalidf("Table '%s' doesn't exist", c.Table)
	}
	if err := k.checkOwnDefinition(); err != nil {
		return nil, err
	}
	next := t.copyForChange()
	// Only the names that may collide are collected: those that begin with the name of the new index.
	added, err := next.addIndex(c, k.IndexesCalled(c.baseName(t)))
	if err != nil {
		return nil, err
	}
	if added == nil {
		return s, nil
	}
	// Set after addIndex, which may find that the index exists.
	added.ID = s.nextStorage
	return s.withNext(k.withTable(next.Seal()), s.nextStorage+1), nil
}

// addIndexes adds the indexes of a new table, numbered from first, and returns the next free number. It collects the
// names of the keyspace's other indexes once. t is not part of k yet.
func (t *Table) addIndexes(k *Keyspace, list []CreateIndex, first StorageID) (next StorageID, err error) {
	// Index names are unique in the keyspace, so those of all tables and of the indexes added before count.
	taken := k.IndexesCalled("")
	for i := range list {
		added, err := t.addIndex(&list[i], taken)
		if err != nil {
			return 0, err
		}
		if added != nil {
			taken[added.Name] = true
			added.ID = first
			first++
		}
	}
	return first, nil
}

// addIndex adds an index, without an id, to t, a copy that the caller seals afterwards. taken contains the names in use
// that begin with c.baseName(t). It returns nil if the index exists and c has IF NOT EXISTS. An index exists if one has
// its name, or its definition under another name.
//
//	index     name taken   same definition    result
//	i ON c    no           no                 a new index
//	i ON c    yes          any                *refused.Invalid, or nil with IF NOT EXISTS
//	ON c      no           yes                *refused.Invalid, or nil with IF NOT EXISTS
func (t *Table) addIndex(c *CreateIndex, taken map[string]bool) (*Index, error) {
	if c.Name != "" && taken[c.Name] {
		if c.IfNotExists {
			return nil, nil
		}
		return nil, invalidf("Index '%s' already exists", c.Name)
	}
	ix, err := c.index(t, taken)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(t.indexes, ix.sameExceptName); i >= 0 {
		if c.IfNotExists {
			return nil, nil
		}
		return nil, invalidf("Index %s is a duplicate of existing index %s", ix.Name, t.indexes[i].Name)
	}
	if err := checkIndexName(t, ix.Name); err != nil {
		return nil, err
	}
	if err := ix.checkClass(t); err != nil {
		return nil, err
	}
	// Seal sorts the list.
	t.indexes = append(t.indexes, ix)
	return ix, nil
}

// checkClass checks the rules of the class of an index that is not part of t yet. t must be sealed. CreateIndex.index
// has checked the rules that all classes share.
func (ix *Index) checkClass(t *Table) error {
	col := t.ColumnByID(ix.Column)
	rules := &indexclass.Index{Options: ix.Options, Shown: t.ShownOptions(ix), Type: col.Type,
		Terms: ix.TermTypes(col.Type), PartitionKey: col.Kind == PartitionKey, Clustering: col.Kind == Clustering,
		Desc: col.Desc}
	//exhaustive:enforce
	switch ix.Class {
	case LegacyIndex:
		return nil
	case SAI:
		// An index on the same target with other options would index the same terms twice.
		for _, o := range t.indexes {
			if o.Class == SAI && o.Column == ix.Column && o.Target == ix.Target {
				return invalidf("Cannot create more than one storage-attached index on the same column: %s", col.Name)
			}
		}
		return rules.CheckSAI()
	case SASI:
		return rules.CheckSASI()
	}
	return misconfiguredf("Unable to find custom indexer class '%s'", ix.Options[indexclass.OptionClass])
}

// baseName returns c.Name or, if it is empty, the default name, without the number that may make it unique.
func (c *CreateIndex) baseName(t *Table) string {
	if c.Name != "" {
		return c.Name
	}
	return defaultIndexName(t, c.Column)
}

// index returns the index that c defines, without an id. taken contains the names in use that begin with c.baseName(t).
// The order of the checks is Cassandra's.
func (c *CreateIndex) index(t *Table, taken map[string]bool) (*Index, error) {
	if hasCounters(t) {
		return nil, invalidf("Secondary indexes on counter tables aren't supported")
	}
	if t.View != nil {
		return nil, invalidf("Secondary indexes on materialized views aren't supported")
	}
	col := t.Column(c.Column)
	if col == nil {
		return nil, invalidf("Undefined column name %s in table %s.%s", types.QuoteName(c.Column), t.Keyspace, t.Name)
	}
	// The index refers to its column by id; IndexTargetText shows the current name.
	ix := &Index{Name: c.Name, Kind: c.Class.kind(), Class: c.Class, Column: col.ID, Target: c.Target,
		Options: c.Options}
	// Collections are indexed by their values unless the statement has another target.
	if ix.Target == IndexSimple && col.Type.Kind().IsCollection() {
		ix.Target = IndexValues
	}
	if c.Class != LegacyIndex {
		// In Cassandra, column names become part of the file names of custom indexes.
		if err := indexclass.CheckName(col.Name); err != nil {
			return nil, err
		}
	}
	if err := t.checkIndexTarget(col, ix.Target); err != nil {
		return nil, err
	}
	// addIndex has checked a given name against taken.
	if ix.Name == "" {
		ix.Name = unusedIndexName(c.baseName(t), taken)
	}
	return ix, nil
}

// checkIndexName validates an index name. A default name is checked as well, because it may be too long.
func checkIndexName(t *Table, name string) error {
	if !isWord(name) {
		return misconfiguredf("Illegal index name %s", name)
	}
	if len(name) > tableNameMax {
		return misconfiguredf("%s.%s: Index name must not be more than %d characters long (got %d characters for "+
			"\"%s\")",
			t.Keyspace, t.Name, tableNameMax, len(name), name)
	}
	return nil
}

// checkIndexTarget returns an error if a column cannot be indexed with this target. index has already replaced the
// default target.
//
//	column                      targets
//	one value                   simple
//	list, set                   values
//	map                         values, keys, entries
//	frozen collection           full
//	user-defined type           simple, if it is frozen
func (t *Table) checkIndexTarget(col *Column, target IndexTarget) error {
	// Durations have no order. The message depends on the outermost kind.
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
	// The whole partition key finds a partition without an index.
	if col.Kind == PartitionKey && len(t.PartitionKey) == 1 {
		return invalidf("Cannot create secondary index on the only partition key column %s", types.QuoteName(col.Name))
	}
	// The target must match the type. A frozen collection is one value, which only full() indexes; a non-frozen
	// collection is indexed by its elements.
	collection := col.Type.Kind().IsCollection()
	switch {
	case target == IndexFull && !(collection && col.Type.Frozen()):
		return invalidf("full() indexes can only be created on frozen collections")
	case target != IndexFull && collection && col.Type.Frozen():
		return invalidf("Cannot create %s() index on frozen column %s. Frozen collections are immutable and must be "+
			"fully "+
			"indexed by using the 'full(%s)' modifier", target, types.QuoteName(col.Name), types.QuoteName(col.Name))
	case target != IndexSimple && target != IndexFull && !collection:
		return invalidf("Cannot create %s() index on %s. Non-collection columns only support simple indexes", target,
			types.QuoteName(col.Name))
	case (target == IndexKeys || target == IndexEntries) && col.Type.Kind() != types.Map:
		return invalidf("Cannot create index on %s of column %s with non-map type", target, types.QuoteName(col.Name))
	case col.Type.Kind() == types.UDT && col.Type.MultiCell():
		return invalidf("Cannot create index on non-frozen UDT column %s", types.QuoteName(col.Name))
	}
	return nil
}

// applyDropIndex removes an index from its table. Dropped then reports the index's id, so its entries are purged.
func applyDropIndex(s *Schema, c *DropIndex) (*Schema, error) {
	t, ix := s.Index(c.Keyspace, c.Name)
	if ix == nil {
		if c.IfExists {
			return s, nil
		}
		return nil, &refused.NotFound{Keyspace: c.Keyspace, Name: c.Name, Index: true}
	}
	// Only the copied list is modified. It contains the same pointers as the old one.
	next := t.copyForChange()
	next.indexes = slices.DeleteFunc(next.indexes, func(o *Index) bool { return o == ix })
	return s.with(s.keyspaces[c.Keyspace].withTable(next.Seal())), nil
}

// sortIndexes sorts the indexes of t by name. t must be a copy.
func (t *Table) sortIndexes() {
	slices.SortFunc(t.indexes, func(a, b *Index) int { return strings.Compare(a.Name, b.Name) })
}
