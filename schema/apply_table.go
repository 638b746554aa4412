package schema

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"cqld/schema/refused"
	"cqld/types"
)

// applyCreateTable adds a table. It takes the next storage id, and its indexes the following ones.
func applyCreateTable(s *Schema, c *CreateTable) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil {
		return nil, &refused.NotFound{Keyspace: c.Keyspace}
	}
	if err := k.checkOwnDefinition(); err != nil {
		return nil, err
	}
	if k.tables[c.Table] != nil {
		if c.IfNotExists {
			return s, nil
		}
		return nil, &refused.Exists{Keyspace: c.Keyspace, Table: c.Table}
	}
	// Two statements may have the same id in WITH. A dropped table that can be restored keeps its id reserved.
	other := s.tableByID(c.ID)
	if other != nil && IsHidden(other.Keyspace) {
		return nil, invalidf("Table id %s is the id of table %s of a dropped keyspace, which UNDROP KEYSPACE restores "+
			"and PURGE KEYSPACE removes", c.ID, other.Name)
	}
	if other != nil && other.Retention != nil {
		return nil, invalidf("Table id %s is the id of the dropped table %s.%s, which UNDROP TABLE restores and "+
			"PURGE TABLE removes", c.ID, other.Keyspace, other.Name)
	}
	if other != nil {
		return nil, invalidf("Table id %s is that of %s.%s already", c.ID, other.Keyspace, other.Name)
	}
	// The table takes the next storage id; its indexes take the following ones.
	t := &Table{ID: c.ID, StorageID: s.nextStorage, Keyspace: c.Keyspace, Name: c.Table, Compact: c.Compact,
		Options: c.Options, Replication: k.Replication}
	// Types may have been altered since the change was created.
	specs, err := k.currentTypes(c.Columns)
	if err != nil {
		return nil, err
	}
	if err := t.addColumns(specs); err != nil {
		return nil, err
	}
	// Sealed before the checks, which use the computed lists; sealed again after indexes were added, which requires a
	// sealed table.
	t.Seal()
	if err := t.validate(); err != nil {
		return nil, err
	}
	next := s.nextStorage + 1
	if len(c.Indexes) > 0 {
		if next, err = t.addIndexes(k, c.Indexes, next); err != nil {
			return nil, err
		}
		t.Seal()
	}
	return s.withNext(k.withTable(t), next), nil
}

// currentTypes returns a copy of specs with the current versions of the types in k.
func (k *Keyspace) currentTypes(specs []ColumnSpec) ([]ColumnSpec, error) {
	out := slices.Clone(specs)
	for i := range out {
		t, err := k.current(out[i].Type)
		if err != nil {
			return nil, err
		}
		out[i].Type = t
	}
	return out, nil
}

// tableByID returns the table, view or retained table with an id, or nil. It scans the ids in digests, which are
// contiguous in memory.
func (s *Schema) tableByID(id UUID) *Table {
	for _, name := range s.StoredKeyspaceNames() {
		k := s.StoredKeyspace(name)
		if i := slices.IndexFunc(k.digests, func(d digested) bool { return d.id == id }); i >= 0 {
			return k.sorted[i]
		}
		if i := slices.IndexFunc(k.retained, func(t *Table) bool { return t.ID == id }); i >= 0 {
			return k.retained[i]
		}
	}
	return nil
}

// addColumns adds the columns of a new table. Key columns must be in key order, because their positions follow from it.
// Ids are assigned in this order, and have 16 bits.
func (t *Table) addColumns(specs []ColumnSpec) error {
	if len(specs) > math.MaxUint16 {
		return invalidf("Table '%s' would have %d columns; no more than %d are possible", t.Name, len(specs),
			math.MaxUint16)
	}
	// The comparison is case-sensitive.
	seen := make(map[string]bool, len(specs))
	for _, spec := range specs {
		if seen[spec.Name] {
			return invalidf("Duplicate column '%s' declaration for table '%s'", spec.Name, t.Name)
		}
		seen[spec.Name] = true
		col := &Column{ID: t.NextColumn, Name: spec.Name, Kind: spec.Kind, Position: -1, Desc: spec.Desc,
			Type: spec.Type,
			Mask: spec.Mask, Attributes: spec.Attributes}
		t.NextColumn++
		switch spec.Kind {
		case PartitionKey:
			// The spec's order within its kind is the position in the key.
			col.Position = len(t.PartitionKey)
			t.PartitionKey = append(t.PartitionKey, col)
		case Clustering:
			col.Position = len(t.Clustering)
			t.Clustering = append(t.Clustering, col)
		case Static:
			t.Statics = append(t.Statics, col)
		case Regular:
			t.Regulars = append(t.Regulars, col)
		default:
			return invalidf("Column '%s' of table '%s' is of no kind", spec.Name, t.Name)
		}
	}
	return nil
}

// validate checks the rules that hold for every table, including altered tables and views. t must be sealed. checkView
// has the rules between a view and its base table.
//
//  1. the name of the table
//  2. the partition key, and the types of key columns
//  3. static columns need clustering columns
//  4. counters are not mixed with other columns, and do not expire
//  5. the options
func (t *Table) validate() error {
	if !isWord(t.Name) {
		return misconfiguredf("%s.%s: Table name must not be empty or not contain non-alphanumeric-underscore "+
			"characters (got \"%s\")",
			t.Keyspace, t.Name, t.Name)
	}
	if len(t.Name) > tableNameMax {
		return misconfiguredf("%s.%s: Table name must not be more than %d characters long (got %d characters for "+
			"\"%s\")",
			t.Keyspace, t.Name, tableNameMax, len(t.Name), t.Name)
	}
	if len(t.PartitionKey) == 0 {
		return misconfiguredf("%s.%s: Missing partition keys", t.Keyspace, t.Name)
	}
	for _, key := range slices.Concat(t.PartitionKey, t.Clustering) {
		if err := checkKeyType(key.Name, key.Type); err != nil {
			return err
		}
	}
	if len(t.Statics) > 0 && len(t.Clustering) == 0 {
		return errStaticWithoutClustering()
	}
	if err := t.validateCounters(); err != nil {
		return err
	}
	// Errors of the definition are reported before errors of the options.
	return t.Options.Validate()
}

// errStaticWithoutClustering returns Cassandra's error for static columns in a table without clustering columns.
func errStaticWithoutClustering() error {
	return invalidf("Static columns are only useful (and thus allowed) if the table has at least one clustering column")
}

// validateCounters checks that a counter table has only counters besides its key, and no default TTL. alterAdd checks
// that a table without counters does not get one.
func (t *Table) validateCounters() error {
	counter := hasCounters(t)
	for _, c := range slices.Concat(t.Statics, t.Regulars) {
		switch {
		case counter && c.Type.Kind() != types.Counter:
			return misconfiguredf("%s.%s: Cannot have a non counter column (\"%s\") in a counter table", t.Keyspace,
				t.Name, c.Name)
		}
	}
	// An invalid query, unlike the configuration error above: the protocol's codes differ.
	if counter && t.Options.DefaultTTL > 0 {
		return invalidf("Cannot set default_time_to_live on a table with counters")
	}
	return nil
}

// checkKeyType returns an error if a primary key column cannot have this type: keys need an order and a single cell.
func checkKeyType(name string, t *types.Type) error {
	switch {
	case t.Kind() == types.Counter:
		return invalidf("counter type is not supported for PRIMARY KEY column '%s'", name)
	// Frozen collections are compared by their elements, so every depth counts.
	case hasKind(t, types.Duration):
		return invalidf("duration type is not supported for PRIMARY KEY column '%s'", name)
	case t.Kind().IsCollection() && t.MultiCell():
		return invalidf("Invalid non-frozen collection type %s for PRIMARY KEY column '%s'", t, name)
	case t.Kind() == types.UDT && t.MultiCell():
		return invalidf("Invalid non-frozen user-defined type \"%s.%s\" for PRIMARY KEY column '%s'", t.UDTKeyspace(),
			t, name)
	}
	return nil
}

// hasKind reports whether t, or a part of it at any depth, is of kind k.
func hasKind(t *types.Type, k types.Kind) bool {
	if t.Kind() == k {
		return true
	}
	// The fields of user-defined types are among Elems.
	for _, e := range t.Elems() {
		if hasKind(e, k) {
			return true
		}
	}
	return false
}

// applyDropTable drops a table and its indexes. It refuses to drop a table with views.
func applyDropTable(s *Schema, c *DropTable) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil || k.tables[c.Table] == nil {
		if c.IfExists {
			return s, nil
		}
		return nil, &refused.NotFound{Keyspace: c.Keyspace, Name: c.Table}
	}
	// Tables and views share a map, so DROP TABLE could name a view.
	if k.tables[c.Table].View != nil {
		return nil, invalidf("Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead.")
	}
	if len(k.tables[c.Table].views) > 0 { // Cassandra prints the keyspace
		return nil, invalidf("Cannot drop a table when materialized views still depend on it (%s)", c.Keyspace)
	}
	// The program needs its replicated system tables.
	if IsSystem(c.Keyspace) {
		return nil, invalidf("Cannot drop table '%s.%s'", c.Keyspace, c.Table)
	}
	// Changes of earlier versions have no retention: the data are removed at once.
	if c.Retention != nil {
		return s.retain(k, k.tables[c.Table], *c.Retention), nil
	}
	return s.with(k.withoutTable(c.Table)), nil
}

// applyAlterTable changes one aspect of a table: the first one that c contains. The views of the table are adapted.
func applyAlterTable(s *Schema, c *AlterTable) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil || k.tables[c.Table] == nil {
		if c.IfExists {
			return s, nil
		}
		return nil, &refused.NotFound{Keyspace: c.Keyspace, Name: c.Table}
	}
	if err := k.checkOwnDefinition(); err != nil {
		return nil, err
	}
	old := k.tables[c.Table]
	if old.View != nil {
		return nil, invalidf("Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead")
	}
	// The copy shares its columns with old: a changed column must be replaced by a new one.
	t := old.copyForChange()
	var err error
	switch {
	case len(c.Add) > 0:
		var specs []ColumnSpec
		if specs, err = k.currentTypes(c.Add); err == nil {
			err = t.alterAdd(specs, c.AddIfNotExists)
		}
	case len(c.Drop) > 0:
		err = t.alterDrop(c)
	case len(c.Undrop) > 0:
		err = alterUndrop(t, k, c)
	case len(c.Purge) > 0:
		err = alterPurge(t, c)
	case len(c.Rename) > 0:
		err = t.alterRename(c)
	case c.DropCompact:
		err = t.dropCompact()
	case c.Mask != nil:
		err = t.alterMask(c.Mask)
	case c.Attributes != nil:
		err = t.alterAttributes(c.Attributes)
	case len(c.Extend) > 0:
		t.Options.Extensions = extend(t.Options.Extensions, c.Extend)
	// Options with an empty Set change nothing.
	default:
		t.Options = t.Options.with(&c.Options, c.Set)
	}
	// Checked before withBase adapts the columns of the views.
	if err == nil {
		err = checkAlterBase(old, t, c)
	}
	if err != nil {
		return nil, err
	}
	t.Seal()
	if err := t.validate(); err != nil {
		return nil, err
	}
	// For example ADD IF NOT EXISTS of an existing column, or an option that is set to its current value.
	if t.sameDefinition(old) {
		return s, nil
	}
	return s.with(k.withBase(t)), nil
}

// copyForChange returns a copy with its own lists. The columns are shared. Its computed fields (byName, byID) are
// outdated until Seal.
func (t *Table) copyForChange() *Table {
	c := *t
	// Seal replaces the other slices and maps.
	c.PartitionKey = slices.Clone(t.PartitionKey)
	c.Clustering = slices.Clone(t.Clustering)
	c.Statics = slices.Clone(t.Statics)
	c.Regulars = slices.Clone(t.Regulars)
	c.Dropped = slices.Clone(t.Dropped)
	c.indexes = slices.Clone(t.indexes)
	return &c
}

// columnsByName returns the columns in the lists. Unlike byName, it also works while the table is not sealed.
func (t *Table) columnsByName() map[string]*Column {
	all := make(map[string]*Column, len(t.stored))
	for _, list := range [...][]*Column{t.PartitionKey, t.Clustering, t.Statics, t.Regulars} {
		for _, c := range list {
			all[c.Name] = c
		}
	}
	return all
}

// droppedByName returns the positions of dropped columns in t.Dropped.
func (t *Table) droppedByName() map[string]int {
	all := make(map[string]int, len(t.Dropped))
	for i := range t.Dropped {
		all[t.Dropped[i].Name] = i
	}
	return all
}

// alterAdd adds columns. Each column of a statement is checked against the table with the columns before it.
func (t *Table) alterAdd(specs []ColumnSpec, ifNotExists bool) error {
	columns, dropped := t.columnsByName(), t.droppedByName()
	// Columns that the loop adds may make it a counter table.
	counter := hasCounters(t)
	for _, spec := range specs {
		if columns[spec.Name] != nil {
			if ifNotExists {
				continue
			}
			return invalidf("Column with name '%s' already exists", spec.Name)
		}
		if t.Compact != NotCompact {
			return invalidf("Cannot add new column to a COMPACT STORAGE table")
		}
		if spec.Kind != Static && spec.Kind != Regular {
			return invalidf("Cannot add a column of the primary key")
		}
		if spec.Kind == Static && len(t.Clustering) == 0 {
			return errStaticWithoutClustering()
		}
		col := &Column{Name: spec.Name, Kind: spec.Kind, Position: -1, Type: spec.Type, Mask: spec.Mask,
			Attributes: spec.Attributes}
		// Old cells of a column with this name are still in files: the new column must be able to read them, or hides
		// them.
		if at, ok := dropped[spec.Name]; ok {
			if err := col.reuse(&t.Dropped[at]); err != nil {
				return err
			}
		} else {
			// NextColumn exceeds every id, and must fit into 16 bits as well.
			if t.NextColumn == math.MaxUint16 {
				return invalidf("Table '%s' cannot have any more columns", t.Name)
			}
			col.ID = t.NextColumn
			t.NextColumn++
		}
		// A table with other columns is not a counter table.
		if !counter && len(t.Statics)+len(t.Regulars) > 0 && col.IsCounter() {
			return misconfiguredf("%s.%s: Cannot have a counter column (\"%s\") in a non counter table", t.Keyspace,
				t.Name, spec.Name)
		}
		if spec.Kind == Static {
			t.Statics = append(t.Statics, col)
		} else {
			t.Regulars = append(t.Regulars, col)
		}
		columns[spec.Name], counter = col, counter || col.IsCounter()
	}
	return nil
}

// reuse gives c the id and drop time of the dropped column with its name. Cells are stored by id, so the id must be the
// same; the time hides the old cells. A dropped counter cannot be added again.
func (c *Column) reuse(d *DroppedColumn) error {
	switch {
	case !readable(c.Type, d.Type):
		return invalidf("Cannot add a column '%s' of type %s, incompatible with previously dropped column '%s' of "+
			"type %s",
			c.Name, c.Type, d.Name, d.Type)
	case d.Kind != c.Kind:
		return invalidf("Cannot re-add previously dropped column '%s' of kind %s, incompatible with previous kind %s",
			c.Name, kindWord(c.Kind), kindWord(d.Kind))
	case c.Type.Kind() == types.Counter:
		return invalidf("Cannot re-add previously dropped counter column %s", c.Name)
	}
	// NextColumn stays, because the id was assigned before.
	c.ID, c.DroppedMicros = d.ID, d.Micros
	return nil
}

// kindWord returns the kind of a column in Cassandra's words. Key columns cannot be dropped.
func kindWord(k ColumnKind) string {
	if k == Static {
		return "STATIC"
	}
	return "REGULAR"
}

// alterDrop removes columns and records when they were dropped. Their cells are hidden, and stay in files until they
// are purged.
//
//	DROP c              c is in Dropped, with the time of the drop, and the end of its grace
//	UNDROP c            c is as before the drop (alterUndrop)
//	ADD c again         c has its old id, and DroppedMicros
//	DROP c again        the same entry in Dropped, with the later time
func (t *Table) alterDrop(c *AlterTable) error {
	columns, dropped := t.columnsByName(), t.droppedByName()
	removed := map[*Column]bool{}
	for _, name := range c.Drop {
		col := columns[name]
		switch {
		case (col == nil || t.Hides(col)) && c.DropIfExists:
			continue
		case col == nil || t.Hides(col):
			return invalidf("Column %s was not found in table '%s.%s'", name, t.Keyspace, t.Name)
		case col.Kind == PartitionKey || col.Kind == Clustering:
			return invalidf("Cannot drop PRIMARY KEY column %s", name)
		case t.Compact == CompactDense:
			return invalidf("Cannot drop column %s, the only value of the rows of a COMPACT STORAGE table", name)
		case col.Type.Kind() == types.UDT && col.Type.MultiCell():
			return invalidf("Cannot drop non-frozen column %s of user type %s", name, col.Type)
		}
		// An index refers to its column by id, so the index must be dropped first.
		if names := t.dependent(col.ID); names != "" {
			return invalidf("Cannot drop column %s because it has dependent secondary indexes (%s)", name, names)
		}
		// A name that occurs twice in the statement is not found the second time.
		delete(columns, name)
		removed[col] = true
		// Dropped has one entry for each name. Its time never decreases: a later drop with an older timestamp must not
		// reveal cells that an earlier drop hid.
		d := DroppedColumn{Column: *col, Micros: max(c.DropMicros, col.DroppedMicros)}
		// Columns cannot be added to a compact table, so that none is restored.
		if t.Compact == NotCompact && c.DropUntil > 0 {
			d.Until, d.Declared = c.DropUntil, col.Type
		}
		// The recorded type must stay the same if the user-defined type is altered.
		d.Type = ExpandUserTypes(d.Type)
		if at, again := dropped[name]; again {
			t.Dropped[at] = d
			continue
		}
		dropped[name] = len(t.Dropped)
		t.Dropped = append(t.Dropped, d)
	}
	is := func(o *Column) bool { return removed[o] }
	t.Statics = slices.DeleteFunc(t.Statics, is)
	t.Regulars = slices.DeleteFunc(t.Regulars, is)
	return nil
}

// alterRename renames key columns. As in Cassandra, no other columns can be renamed. Cells are stored by id, so no data
// changes.
func (t *Table) alterRename(c *AlterTable) error {
	columns := t.columnsByName()
	for _, r := range c.Rename {
		col := columns[r.From]
		switch {
		case col == nil || t.Hides(col): // also with IF EXISTS, as in Cassandra
			return invalidf("Undefined column name %s in table %s.%s", r.From, t.Keyspace, t.Name)
		case col.Kind != PartitionKey && col.Kind != Clustering:
			return invalidf("Cannot rename non PRIMARY KEY column %s", r.From)
		case col.CheckText() != "" && r.Check == "": // added after the change was defined
			return invalidf("Cannot rename column %s: its CHECK constraint was changed at the same time", r.From)
		case columns[r.To] != nil:
			return invalidf("Cannot rename column %s to %s in table '%s.%s'; another column with that name already "+
				"exists",
				r.From, r.To, t.Keyspace, t.Name)
		}
		// Cassandra's rule; entries of an index contain ids, not names.
		if names := t.dependent(col.ID); names != "" {
			return invalidf("Can't rename column %s because it has dependent secondary indexes (%s)", r.From, names)
		}
		// Columns are shared with the previous version of the table, so the column is replaced in the copied list.
		renamed := *col
		renamed.Name = r.To
		// The constraint contains the column's name.
		if r.Check != "" {
			renamed.Attributes = (&AttributesChange{Check: &r.Check}).apply(col.Attributes)
		}
		if col.Kind == PartitionKey {
			t.PartitionKey[col.Position] = &renamed
		} else {
			t.Clustering[col.Position] = &renamed
		}
		// A later rename of the statement refers to the new name.
		delete(columns, r.From)
		columns[r.To] = &renamed
	}
	return nil
}

// equal reports whether both options are equal. Maps are compared by content, all other fields by their formatted text,
// so a new field cannot be forgotten.
func (o Options) equal(p *Options) bool {
	if !maps.Equal(o.Caching, p.Caching) || !maps.Equal(o.Compaction, p.Compaction) ||
		!maps.Equal(o.Compression, p.Compression) ||
		!maps.EqualFunc(o.Extensions, p.Extensions, func(a, b []byte) bool { return string(a) == string(b) }) {
		return false
	}
	// The maps were compared above. o and q are copies, so their maps can be cleared.
	q := *p
	o.Caching, o.Compaction, o.Compression, o.Extensions = nil, nil, nil, nil
	q.Caching, q.Compaction, q.Compression, q.Extensions = nil, nil, nil, nil
	return fmt.Sprintf("%+v", o) == fmt.Sprintf("%+v", q)
}
