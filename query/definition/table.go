package definition

import (
	"slices"
	"strconv"
	"strings"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/types"
)

// createTable defines CREATE TABLE. The steps are in the order in which Cassandra reports errors:
//
//  1. the form of the statement: columns, keys and order that occur twice (checkForm)
//  2. the options in WITH (tableOptions)
//  3. the permission (mayChange)
//  4. the keyspace, and a table with the name: left to Apply
//  5. the id in WITH
//  6. the types and masks of all columns
//  7. the primary key and CLUSTERING ORDER BY
//  8. constraints and defaults
//  9. static columns and counters (checkTogether)
func (d *Definer) createTable(stmt *cql.CreateTable) Definition {
	keyspace, err := d.KeyspaceOf(stmt.Table)
	if err != nil {
		return refuse(err)
	}
	b := tableBuilder{d: d, stmt: stmt, keyspace: keyspace, name: stmt.Table.Name}
	if err := b.checkForm(); err != nil {
		return refuse(err)
	}
	// A guardrail may drop properties, with a warning, before they are parsed.
	given, err := d.guarding().properties(stmt.Options.Properties)
	if err != nil {
		return refuse(err)
	}
	// err is returned after the form is checked. Until then, options has the defaults.
	options, set, err := tableOptions(schema.DefaultOptions(), given)
	if strings.HasSuffix(options.Compaction["class"], "LeveledCompactionStrategy") &&
		!slices.Contains(set, "bloom_filter_fp_chance") {
		options.BloomFilterFPChance = 0.1 // Cassandra's default for that strategy
	}
	if err != nil {
		return refuse(err)
	}
	// Cassandra checks permissions after it has parsed the options.
	if err := mayChange(keyspace, "CREATE", "all tables in "+keyspace); err != nil {
		return refuse(err)
	}
	c := &schema.CreateTable{Keyspace: keyspace, Table: b.name, IfNotExists: stmt.IfNotExists, Options: options}
	def := Definition{Change: c, Event: schema.Event{Change: schema.Created, Target: schema.TargetTable,
		Keyspace: keyspace, Name: b.name}}
	if d.Schema.Keyspace(keyspace) == nil || d.Schema.Table(keyspace, b.name) != nil {
		return def // Apply returns this error, before errors about the columns
	}
	// An invalid id is reported before errors about the columns.
	if c.ID, err = b.id(); err != nil {
		return refuse(err)
	}
	// The sum of all types' parts is limited, which limits the size of an encoded definition. The check comes before
	// hidden columns of compact storage are added, whose types have one part each.
	if c.Columns, err = b.columns(); err == nil {
		err = schema.CheckParts(specTypes(c.Columns)...)
	}
	if err != nil {
		return refuse(err)
	}
	// COMPACT STORAGE adds hidden columns. Without clustering columns, it also makes the regular columns static.
	if stmt.Options.CompactStorage {
		if c.Columns, c.Compact, err = schema.CompactColumns(c.Columns); err != nil {
			return refuse(err)
		}
	}
	// Counters do not expire.
	if b.counters > 0 && options.DefaultTTL > 0 {
		return refuse(invalid.Errorf("Cannot set default_time_to_live on a table with counters"))
	}
	return def
}

// tableBuilder converts the columns of a CREATE TABLE statement. checkForm sets key and at, on which the other methods
// rely.
type tableBuilder struct {
	d        *Definer
	stmt     *cql.CreateTable
	keyspace string
	name     string
	// key is the statement's only primary key, or empty.
	key cql.PrimaryKey
	// counters is the number of counter columns.
	counters int
	at       map[string]int // positions of the columns in the statement
}

// checkForm performs the checks that need no schema: duplicate names, the number of primary keys, and duplicates in
// CLUSTERING ORDER BY. A missing primary key is reported later, after errors in types.
func (b *tableBuilder) checkForm() error {
	// Clone, because a key that is declared with its column is appended.
	keys := slices.Clone(b.stmt.PrimaryKeys)
	b.at = make(map[string]int, len(b.stmt.Columns))
	for i := range b.stmt.Columns {
		c := &b.stmt.Columns[i]
		if _, twice := b.at[c.Name]; twice {
			return invalid.Errorf("Duplicate column '%s' declaration for table '%s'", c.Name, b.name)
		}
		b.at[c.Name] = i
		// "c int PRIMARY KEY" declares a key of one column.
		if c.PrimaryKey {
			keys = append(keys, cql.PrimaryKey{Partition: []string{c.Name}})
		}
	}
	if len(keys) > 1 {
		return invalid.Errorf("Multiple PRIMARY KEY specified for table '%s' (exactly one required)", b.name)
	}
	if len(keys) == 1 {
		b.key = keys[0]
	}
	ordered := make(map[string]bool, len(b.stmt.Options.ClusteringOrder))
	for _, o := range b.stmt.Options.ClusteringOrder {
		if ordered[o.Column] {
			return invalid.Errorf("Duplicate column '%s' in CLUSTERING ORDER BY clause for table '%s'", o.Column,
				b.name)
		}
		ordered[o.Column] = true
	}
	return nil
}

// id returns the id in WITH, or a new one. An id in WITH restores a table under its previous id; Apply refuses an id
// that is in use.
func (b *tableBuilder) id() (schema.UUID, error) {
	// The names were checked with the options.
	p := properties{b.stmt.Options.Properties}
	text, ok, err := p.text("id")
	if err != nil {
		return schema.UUID{}, err
	}
	if !ok {
		return b.d.NewID(), nil
	}
	id, err := schema.ParseUUID(text)
	if err != nil {
		return schema.UUID{}, invalid.Configf("Invalid table id")
	}
	return id, nil
}

// columns returns the key columns in key order, then the others in the order of the statement. All types are resolved
// first: their errors come before errors of the key.
func (b *tableBuilder) columns() ([]schema.ColumnSpec, error) {
	// Both slices are in the order of the statement.
	resolved, masks := make([]*types.Type, len(b.stmt.Columns)), make([]*schema.Mask, len(b.stmt.Columns))
	for i := range b.stmt.Columns {
		t, err := b.d.typeOf(b.keyspace, &b.stmt.Columns[i].Type)
		if err != nil {
			return nil, err
		}
		if err := checkNestedUDT(t); err != nil {
			return nil, err
		}
		resolved[i] = t
		if masks[i], err = b.d.mask(b.keyspace, b.stmt.Table.Name, b.stmt.Columns[i].Name, t,
			b.stmt.Columns[i].Mask); err != nil {
			return nil, err
		}
	}
	if len(b.key.Partition) == 0 {
		// Cassandra's spelling
		return nil, invalid.Errorf("No PRIMARY KEY specifed for table '%s' (exactly one required)", b.name)
	}
	// The order is checked before the columns of the key, as in Cassandra.
	descending, err := b.clusteringOrder()
	if err != nil {
		return nil, err
	}
	specs, err := b.keyColumns(resolved, masks, descending)
	if err != nil {
		return nil, err
	}
	specs, others, err := b.otherColumns(specs, resolved, masks)
	if err != nil {
		return nil, err
	}
	// Constraints and defaults depend on the kind of the column, which is known only now.
	for i := range specs {
		if err := b.d.attributes(b.keyspace, b.name, &specs[i], &b.stmt.Columns[b.at[specs[i].Name]]); err != nil {
			return nil, err
		}
	}
	return specs, b.checkTogether(specs, others)
}

// keyColumns returns the key columns in key order. resolved and masks are in the order of the statement, and descending
// is by name.
func (b *tableBuilder) keyColumns(resolved []*types.Type, masks []*schema.Mask,
	descending map[string]bool) ([]schema.ColumnSpec, error) {
	specs := make([]schema.ColumnSpec, 0, len(b.stmt.Columns))
	seen := map[string]bool{}
	// The position in the key decides whether a column is a partition key or a clustering column.
	for i, name := range slices.Concat(b.key.Partition, b.key.Clustering) {
		at, ok := b.at[name]
		switch {
		case !ok:
			return nil, invalid.Errorf("Unknown column '%s' referenced in PRIMARY KEY for table '%s'", name, b.name)
		case seen[name]:
			return nil, invalid.Errorf("Duplicate column '%s' in PRIMARY KEY clause for table '%s'", name, b.name)
		case b.stmt.Columns[at].Static:
			return nil, invalid.Errorf("Static column '%s' cannot be part of the PRIMARY KEY", name)
		}
		seen[name] = true
		spec := schema.ColumnSpec{Name: name, Kind: schema.PartitionKey, Type: resolved[at], Mask: masks[at]}
		// ReversedType in quotes is the old spelling of DESC.
		if i >= len(b.key.Partition) {
			spec.Kind, spec.Desc = schema.Clustering, descending[name] || isReversedClass(&b.stmt.Columns[at].Type)
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// otherColumns appends the columns outside the key to specs, and returns their number. It adds the number of counters
// to b.counters.
func (b *tableBuilder) otherColumns(specs []schema.ColumnSpec, resolved []*types.Type,
	masks []*schema.Mask) ([]schema.ColumnSpec, int, error) {
	keys := make(map[string]bool, len(specs))
	for i := range specs {
		keys[specs[i].Name] = true
	}
	others := 0
	var byClass []string // counters whose type is written as its class name
	for i := range b.stmt.Columns {
		c := &b.stmt.Columns[i]
		if keys[c.Name] {
			continue
		}
		spec := schema.ColumnSpec{Name: c.Name, Kind: schema.Regular, Type: resolved[i], Mask: masks[i]}
		if c.Static {
			spec.Kind = schema.Static
		}
		if resolved[i].Kind() == types.Counter {
			b.counters++
			if c.Type.Kind == cql.TypeCustom {
				byClass = append(byClass, c.Name)
			}
		}
		others++
		specs = append(specs, spec)
	}
	if b.counters > 0 && b.counters == len(byClass) { // a class name does not make the table a counter table
		return nil, 0, invalid.Configf("%s.%s: Cannot have a counter column (\"%s\") in a non counter table",
			b.keyspace, b.name, byClass[0])
	}
	return specs, others, nil
}

// checkTogether checks rules that concern several columns. others is the number of columns outside the key.
func (b *tableBuilder) checkTogether(specs []schema.ColumnSpec, others int) error {
	// CompactColumns has an error of its own for static columns.
	static := slices.ContainsFunc(specs, func(s schema.ColumnSpec) bool { return s.Kind == schema.Static })
	if static && len(b.key.Clustering) == 0 && !b.stmt.Options.CompactStorage {
		return invalid.Errorf("Static columns are only useful (and thus allowed) if the table has at least one " +
			"clustering column")
	}
	// A table with counters has only counters outside its key, because their updates are replicated differently.
	if b.counters > 0 && b.counters < others {
		return invalid.Errorf("Cannot mix counter and non counter columns in the same table")
	}
	return nil
}

// clusteringOrder returns which clustering columns are descending. The directive must name the clustering columns in
// their order. Trailing columns may be omitted, and are ascending.
//
//	PRIMARY KEY (k, a, b)
//	CLUSTERING ORDER BY (a DESC)          a descending, b ascending
//	CLUSTERING ORDER BY (b DESC)          error: a is missing
//	CLUSTERING ORDER BY (b ASC, a ASC)    error: a must appear before b
func (b *tableBuilder) clusteringOrder() (map[string]bool, error) {
	descending := map[string]bool{}
	clustering := make(map[string]bool, len(b.key.Clustering))
	for _, name := range b.key.Clustering {
		clustering[name] = true
	}
	var unknownColumns []string
	for _, o := range b.stmt.Options.ClusteringOrder {
		descending[o.Column] = o.Descending
		if !clustering[o.Column] {
			unknownColumns = append(unknownColumns, o.Column)
		}
	}
	// One message lists all unknown columns.
	if unknownColumns != nil {
		return nil,
			invalid.Errorf("Only clustering key columns can be defined in CLUSTERING ORDER directive: [%s] are not "+
				"clustering columns", strings.Join(unknownColumns, ", "))
	}
	// All names are clustering columns now, and none occurs twice (checkForm).
	for i, o := range b.stmt.Options.ClusteringOrder {
		if i >= len(b.key.Clustering) {
			break
		}
		key := b.key.Clustering[i]
		if key == o.Column {
			continue
		}
		// A later clustering column is given, but not this one.
		if _, ok := descending[key]; !ok {
			return nil, invalid.Errorf("Missing CLUSTERING ORDER for column %s", key)
		}
		return nil, invalid.Errorf("The order of columns in the CLUSTERING ORDER directive must match that of the "+
			"clustering columns "+
			"(%s must appear before %s)", key, o.Column)
	}
	return descending, nil
}

// checkNestedUDT refuses a non-frozen user-defined type with non-frozen collections in it: a cell's path has one level
// only.
func checkNestedUDT(t *types.Type) error {
	if t.Kind() != types.UDT || !t.MultiCell() {
		return nil
	}
	for _, e := range t.Elems() {
		if e.MultiCell() {
			return invalid.Errorf("Non-frozen UDTs with nested non-frozen collections are not supported")
		}
	}
	return nil
}

// alterTable defines ALTER TABLE. As in Cassandra, options are checked before the permission and the existence of the
// table. All other actions need the table.
func (d *Definer) alterTable(stmt *cql.AlterTable) Definition {
	keyspace, err := d.KeyspaceOf(stmt.Table)
	if err != nil {
		return refuse(err)
	}
	name := stmt.Table.Name
	c := &schema.AlterTable{Keyspace: keyspace, Table: name, IfExists: stmt.IfExists}
	def := Definition{Change: c, Event: schema.Event{Change: schema.Updated, Target: schema.TargetTable,
		Keyspace: keyspace, Name: name}}
	t := d.Schema.Table(keyspace, name)
	if set, ok := stmt.Action.(*cql.SetTableOptions); ok {
		if err := d.alterOptions(c, t, set); err != nil {
			return refuse(err)
		}
	}
	if err := mayChange(keyspace, "ALTER", "table "+keyspace+"."+name); err != nil {
		return refuse(err)
	}
	// Apply also handles IF EXISTS.
	if t == nil {
		return def // Apply returns this error
	}
	switch a := stmt.Action.(type) {
	case *cql.AddColumns:
		err = d.alterAdd(c, t, a)
	// Apply checks dropped columns against the indexes and views that exist at the time of the change.
	case *cql.DropColumns:
		err = d.alterDrop(c, a)
	// Apply also decides whether the columns can be restored.
	case *cql.UndropColumns:
		c.Undrop, c.At = a.Columns, d.NowMicros()/1e6
	case *cql.PurgeColumns:
		c.Purge = a.Columns
	case *cql.RenameColumns:
		c.Rename, err = renames(t, a)
	case *cql.AlterColumnType:
		err = invalid.Errorf("Altering column types is no longer supported")
	case *cql.AlterColumnMask:
		err = d.alterMask(c, t, a)
	case *cql.AlterColumnConstraints:
		err = d.alterConstraints(c, t, a)
	case *cql.AlterColumnDefault:
		err = d.alterDefault(c, t, a)
	// Apply reports a table without compact storage.
	case *cql.DropCompactStorage:
		if c.DropCompact = true; !d.DropCompact && t.Compact != schema.NotCompact {
			err = invalid.Errorf("DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use.")
		}
	}
	if err != nil {
		return refuse(err)
	}
	return def
}

// alterAdd defines ALTER TABLE ADD. IF NOT EXISTS omits columns that exist, but their types are still checked.
func (d *Definer) alterAdd(c *schema.AlterTable, t *schema.Table, a *cql.AddColumns) error {
	c.AddIfNotExists = a.IfNotExists
	for i := range a.Columns {
		col := &a.Columns[i]
		typ, err := d.typeOf(c.Keyspace, &col.Type)
		if err != nil {
			return err
		}
		if err := checkNestedUDT(typ); err != nil {
			return err
		}
		mask, err := d.mask(c.Keyspace, c.Table, col.Name, typ, col.Mask)
		if err != nil {
			return err
		}
		if a.IfNotExists && t.Column(col.Name) != nil {
			continue
		}
		spec := schema.ColumnSpec{Name: col.Name, Kind: schema.Regular, Type: typ, Mask: mask}
		if col.Static {
			spec.Kind = schema.Static
		}
		if err := d.attributes(c.Keyspace, c.Table, &spec, col); err != nil {
			return err
		}
		c.Add = append(c.Add, spec)
	}
	if err := checkCounters(t, c.Add); err != nil {
		return err
	}
	// The limit applies to the table including its new columns.
	return schema.CheckParts(append(t.ColumnTypes(), specTypes(c.Add)...)...)
}

// checkCounters refuses new columns that do not match a table whose only columns are its key: a counter table that has
// lost all counters accepts only counters, and any other table accepts none. Apply checks tables with other columns,
// and names that are or were in use.
func checkCounters(t *schema.Table, added []schema.ColumnSpec) error {
	if len(t.Regulars)+len(t.Statics) > 0 {
		return nil
	}
	for i := range added {
		c := &added[i]
		// Apply decides whether the name may be used again.
		dropped := slices.ContainsFunc(t.Dropped, func(d schema.DroppedColumn) bool { return d.Name == c.Name })
		counter := c.Type.Kind() == types.Counter
		if counter == t.IsCounter() || dropped || t.Column(c.Name) != nil ||
			c.Kind == schema.Static && len(t.Clustering) == 0 {
			continue
		}
		if counter {
			return invalid.Configf("%s.%s: Cannot have a counter column (\"%s\") in a non counter table", t.Keyspace,
				t.Name, c.Name)
		}
		return invalid.Configf("%s.%s: Cannot have a non counter column (\"%s\") in a counter table", t.Keyspace,
			t.Name, c.Name)
	}
	return nil
}

// specTypes returns the types of columns, in their order.
func specTypes(specs []schema.ColumnSpec) []*types.Type {
	all := make([]*types.Type, len(specs))
	for i := range specs {
		all[i] = specs[i].Type
	}
	return all
}

// alterDrop defines ALTER TABLE DROP: the columns, and the timestamp in µs up to which their cells are ignored. It is
// now, or USING TIMESTAMP. Apply checks the columns.
//
//	DROP c                           now
//	DROP c USING TIMESTAMP 1000      1000 µs after 1970: newer cells reappear if c is added again
func (d *Definer) alterDrop(c *schema.AlterTable, a *cql.DropColumns) error {
	c.Drop, c.DropIfExists, c.DropMicros = a.Columns, a.IfExists, d.NowMicros()
	if r := (dropping{d}).retention(); r != nil {
		c.DropUntil = r.Until
	}
	if a.Timestamp == nil {
		return nil
	}
	// The grammar accepts integers of any length.
	micros, err := strconv.ParseInt(a.Timestamp.Text, 10, 64)
	if err != nil {
		return invalid.Errorf("Invalid timestamp %s", a.Timestamp.Text)
	}
	c.DropMicros = micros
	return nil
}

// alterOptions applies the options in WITH. If t is nil, the table does not exist, and the values are only validated.
// Options that the statement does not set keep the table's values.
func (d *Definer) alterOptions(c *schema.AlterTable, t *schema.Table, a *cql.SetTableOptions) error {
	if (properties{a.Options.Properties}).has("id") {
		return invalid.Configf("Cannot alter table id.")
	}
	given, err := d.guarding().properties(a.Options.Properties)
	if err != nil {
		return err
	}
	// As in Cassandra, the given options must also be valid in combination with the defaults of the others.
	if _, _, err := tableOptions(schema.DefaultOptions(), given); err != nil || t == nil {
		return err
	}
	// Apply sets only the options in Set, so concurrent changes of other options are kept.
	c.Options, c.Set, err = tableOptions(t.Options, given)
	if err == nil && t.IsCounter() && c.Options.DefaultTTL > 0 {
		// Apply would accept a counter table that has no counters left.
		err = invalid.Errorf("Cannot set default_time_to_live on a table with counters")
	}
	return err
}

// dropTable defines DROP TABLE. Apply refuses it for a table with views.
func (d *Definer) dropTable(stmt *cql.DropTable) Definition {
	keyspace, err := d.KeyspaceOf(stmt.Table)
	if err != nil {
		return refuse(err)
	}
	name := stmt.Table.Name
	if err := mayChange(keyspace, "DROP", "table "+keyspace+"."+name); err != nil {
		return refuse(err)
	}
	return Definition{Change: &schema.DropTable{Keyspace: keyspace, Table: name, IfExists: stmt.IfExists,
		Retention: dropping{d}.retention()},
		Event: schema.Event{Change: schema.Dropped, Target: schema.TargetTable, Keyspace: keyspace, Name: name}}
}
