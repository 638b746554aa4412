package definition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/schema/indexclass"
	"cqld/types"
)

// LegacyIndexName is the name in USING of indexes without a class, which CREATE INDEX without USING creates by default.
const LegacyIndexName = "legacy_local_table"

// Warnings about indexes. Cassandra's about vectors also says that they are experimental, and lists levels above ONE.
const (
	sasiWarning        = "SASI indexes are experimental and are not recommended for production use."
	vectorIndexWarning = "SELECT queries with ORDER BY ... ANN OF on the indexed column do not support:\n * Paging.\n" +
		" * No LIMIT clauses.\n * PER PARTITION LIMIT clauses.\n * GROUP BY clauses.\n * Aggregation functions.\n" +
		" * Filters on columns without a SAI index."
)

// Indexes configures the indexes that users may create. The zero value allows all classes, without bounds.
type Indexes struct {
	// Default is the class of CREATE INDEX without USING, as USING would name it. Empty means legacy_local_table.
	Default string
	// DefaultDisabled refuses CREATE INDEX without USING.
	DefaultDisabled bool
	// Disabled refuses all new indexes, and SASIDisabled new SASI indexes.
	Disabled, SASIDisabled bool
	// PerTableWarn and PerTableFail are guardrails on the number of indexes of a table. Zero or less means no limit.
	PerTableWarn, PerTableFail int
}

// createIndex defines an index. Apply makes the checks that depend on the table's columns. As in Cassandra, the event
// is an update of the table, because drivers read indexes with their table.
func (d *Definer) createIndex(stmt *cql.CreateIndex) Definition {
	keyspace, err := d.KeyspaceOf(stmt.Table)
	if err != nil {
		return refuse(err)
	}
	if err := mayChange(keyspace, "ALTER", "table "+keyspace+"."+stmt.Table.Name); err != nil {
		return refuse(err)
	}
	// An empty name stays empty: Apply chooses it.
	c := &schema.CreateIndex{Keyspace: keyspace, Table: stmt.Table.Name, Name: stmt.Name, IfNotExists: stmt.IfNotExists}
	// Errors about the class are reported before a missing table.
	if err := d.indexClass(c, stmt); err != nil {
		return refuse(err)
	}
	def := Definition{Change: c, Event: schema.Event{Change: schema.Updated, Target: schema.TargetTable,
		Keyspace: keyspace, Name: c.Table}}
	if c.Class == schema.SASI {
		def.Warnings = append(def.Warnings, sasiWarning)
	}
	// The remaining checks need the table.
	t := d.Schema.Table(keyspace, c.Table)
	if t == nil {
		return def // Apply returns the error
	}
	// Apply reports an existing name, or ignores the statement because of IF NOT EXISTS.
	if _, taken := d.Schema.Index(keyspace, c.Name); taken != nil {
		return def
	}
	if t.IsCounter() {
		return refuse(invalid.Errorf("Secondary indexes on counter tables aren't supported"))
	}
	// The warning is part of the definition, because these limits are configured separately from Guard.
	if err := d.Indexes.guard(&def, c.Table, c.Name, len(t.Indexes())+1); err != nil {
		return refuse(err)
	}
	if err := indexTarget(c, t, stmt); err != nil {
		return refuse(err)
	}
	if c.Class == schema.SAI && indexesVector(c, t) {
		def.Warnings = append(def.Warnings, vectorIndexWarning)
	}
	return def
}

// indexClass sets the class and the options of an index from USING and WITH. A class that cqld does not know stays
// zero; its name is in the options, for the error message.
func (d *Definer) indexClass(c *schema.CreateIndex, stmt *cql.CreateIndex) error {
	var using string
	if stmt.Using != nil {
		using = *stmt.Using
		// Without USING, CREATE INDEX uses the default class.
	} else {
		if d.Indexes.DefaultDisabled {
			return invalid.Errorf("Must specify index implementation via USING")
		}
		using = cmp.Or(d.Indexes.Default, LegacyIndexName)
	}
	p, err := newProperties(stmt.Properties, "options")
	if err != nil {
		return err
	}
	// With CUSTOM, USING names a class, and there is no class called legacy_local_table.
	if !stmt.Custom && strings.EqualFold(using, LegacyIndexName) {
		if len(stmt.Properties) > 0 {
			return invalid.Errorf("Cannot specify options for a non-CUSTOM index")
		}
		c.Class = schema.LegacyIndex
		return d.Indexes.allow(c.Class)
	}
	// Without WITH OPTIONS the map is nil.
	options, _, err := p.stringMap("options")
	if err != nil {
		return err
	}
	// Cassandra adds both keys to the options itself, so a statement must not.
	for _, name := range []string{indexclass.OptionClass, schema.IndexTargetOption} {
		if _, ok := options[name]; ok {
			return invalid.Errorf("Cannot specify %s as a CUSTOM option", name)
		}
	}
	c.Class = classNamed(using)
	// The name keeps its spelling for DESCRIBE.
	c.Options = map[string]string{indexclass.OptionClass: using}
	// The statement cannot override the class: the key was refused above.
	maps.Copy(c.Options, options)
	return d.Indexes.allow(c.Class)
}

// classNamed returns the class with this name in USING, or zero. The short names of storage-attached indexes are
// compared without case; full class names are not.
//
//	sai, StorageAttachedIndex, SAI's class name   schema.SAI
//	SASI's class name                             schema.SASI
//	others                                        0, which Apply refuses
func classNamed(name string) schema.IndexClass {
	// SASI has no short name.
	short := strings.ToLower(name)
	switch {
	case name == indexclass.SAIClassName, short == "sai", short == "storageattachedindex":
		return schema.SAI
	case name == indexclass.SASIClassName:
		return schema.SASI
	}
	return 0
}

// IsIndexName reports whether CREATE INDEX … USING accepts name. It also validates the configured default class.
func IsIndexName(name string) bool {
	return strings.EqualFold(name, LegacyIndexName) || classNamed(name) != 0
}

// allow refuses the classes that the configuration disables. Its message about all indexes matches Cassandra's
// guardrail.
func (o *Indexes) allow(class schema.IndexClass) error {
	if o.Disabled {
		return invalid.Errorf("Guardrail secondary_indexes violated: Creating secondary indexes is not allowed")
	}
	if class == schema.SASI && o.SASIDisabled {
		return invalid.Errorf("SASI indexes are disabled. Enable in cassandra.yaml to use.")
	}
	return nil
}

// guard checks n, the number of the table's indexes including the new one. It returns an error, or adds a warning to
// def. An index without a name is described by its table only.
func (o *Indexes) guard(def *Definition, table, name string, n int) error {
	what := "on table " + table
	if name != "" {
		what = name + " " + what
	}
	switch {
	case o.PerTableFail > 0 && n > o.PerTableFail:
		return invalid.Errorf("Guardrail secondary_indexes_per_table violated: Tables cannot have more than %d "+
			"secondary indexes, aborting the creation of secondary index %s", o.PerTableFail, what)
	case o.PerTableWarn > 0 && n > o.PerTableWarn:
		def.Warnings = append(def.Warnings, fmt.Sprintf("Guardrail secondary_indexes_per_table violated: "+
			"Creating secondary index %s, current number of indexes %d exceeds warning threshold of %d.", what, n,
			o.PerTableWarn))
	}
	return nil
}

// indexTarget sets the column and the target of an index. No class supports several columns. For none or several, it
// returns Cassandra's error for the class.
//
//	columns   legacy      SAI, SASI
//	none      error       error
//	one       accepted    accepted
//	several   error       error: a duplicate first, then the number
func indexTarget(c *schema.CreateIndex, t *schema.Table, stmt *cql.CreateIndex) error {
	var names []string
	for _, target := range stmt.Targets {
		c.Column, c.Target = target.Column, targetKind(target.Kind)
		// Apply reports a missing column before a wrong number of columns.
		if t.Column(c.Column) == nil {
			return nil // Apply returns the error
		}
		names = append(names, types.QuoteName(c.Column))
	}
	if len(names) == 1 {
		return nil
	}
	columns := strings.Join(names, ", ")
	// names are quoted, which does not affect the comparison. The lists are short.
	duplicate := func(i int) bool { return slices.Contains(names[:i], names[i]) }
	switch {
	case c.Class == schema.LegacyIndex && len(names) == 0:
		return invalid.Errorf("Only CUSTOM indexes can be created without specifying a target column")
	case c.Class == schema.LegacyIndex:
		return invalid.Errorf("Only CUSTOM indexes support multiple columns")
	}
	for i := range names {
		if duplicate(i) {
			return invalid.Errorf("Duplicate column '%s' in index target list", stmt.Targets[i].Column)
		}
	}
	switch {
	case c.Class == schema.SASI:
		return invalid.Configf("failed to retrieve target column for: %s", columns)
	case c.Class == schema.SAI && len(names) == 0:
		return invalid.Errorf("Failed to retrieve target column for: ")
	case c.Class == schema.SAI:
		return invalid.Errorf("A storage-attached index cannot be created over multiple columns: %s", columns)
	}
	// The class is unknown. With one column, Apply reports it.
	return invalid.Configf("Unable to find custom indexer class '%s'", c.Options[indexclass.OptionClass])
}

// targetKind converts the target of the grammar to the target of the schema.
//
//	CREATE INDEX ON t (values(c))   schema.IndexValues
//	CREATE INDEX ON t (full(c))     schema.IndexFull
func targetKind(k cql.IndexTargetKind) schema.IndexTarget {
	switch k {
	case cql.TargetValues:
		return schema.IndexValues
	case cql.TargetKeys:
		return schema.IndexKeys
	case cql.TargetEntries:
		return schema.IndexEntries
	case cql.TargetFull:
		return schema.IndexFull
	case cql.TargetColumn:
	}
	return schema.IndexSimple
}

// indexesVector reports whether the indexed terms are vectors: the column is a vector, or a collection of vectors whose
// elements are indexed. Without an explicit target, the index of a collection indexes its values.
func indexesVector(c *schema.CreateIndex, t *schema.Table) bool {
	col := t.Column(c.Column)
	if col == nil {
		return false
	}
	// A full index has the whole collection as its term.
	if k := col.Type.Kind(); k == types.Vector || c.Target == schema.IndexFull {
		return k == types.Vector
	}
	// The fields of tuples and user-defined types are not indexed one by one.
	return slices.ContainsFunc(col.Type.Elems(), func(e *types.Type) bool { return e.Kind() == types.Vector }) &&
		col.Type.Kind().IsCollection()
}

// dropIndex defines DROP INDEX. The event names the index's table. If the index does not exist, there is no event:
// Apply reports an error, or ignores the statement because of IF EXISTS.
func (d *Definer) dropIndex(stmt *cql.DropIndex) Definition {
	keyspace, err := d.KeyspaceOf(stmt.Index)
	if err != nil {
		return refuse(err)
	}
	// Unlike CREATE INDEX, which reports a missing permission, DROP INDEX has this error for replicated system
	// keyspaces, too.
	if schema.IsSystem(keyspace) {
		return refuse(invalid.Errorf("System keyspace '%s' is not user-modifiable", keyspace))
	}
	def := Definition{Change: &schema.DropIndex{Keyspace: keyspace, Name: stmt.Index.Name, IfExists: stmt.IfExists}}
	if t, _ := d.Schema.Index(keyspace, stmt.Index.Name); t != nil {
		def.Event = schema.Event{Change: schema.Updated, Target: schema.TargetTable, Keyspace: keyspace, Name: t.Name}
	}
	return def
}
