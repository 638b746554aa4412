package definition

import (
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cqld/cql"
	"cqld/query/mask"
	"cqld/ring"
	"cqld/schema"
	"cqld/schema/indexclass"
	"cqld/types"
)

// The output of DESCRIBE is identical to Cassandra's, including the two spaces before durable_writes, because users
// compare it and tools execute it. Functions named …Text return parts of it. Names are quoted where CQL requires it.

// keyspaceText returns CREATE KEYSPACE, and statements for the keyspace's comment and label. A virtual keyspace is
// returned as a CQL comment, because no statement creates it.
//
//	CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', …}  AND durable_writes = true;
func keyspaceText(k *schema.Keyspace) string {
	if k.Virtual {
		return "/*\nWarning: Keyspace " + types.QuoteName(k.Name) +
			" is a virtual keyspace and cannot be recreated with CQL.\n" +
			"Structure, for reference:\nVIRTUAL KEYSPACE " + types.QuoteName(k.Name) + ";\n*/"
	}
	return "CREATE KEYSPACE " + types.QuoteName(k.Name) + " WITH replication = " + replicationText(k.Replication) +
		"  AND durable_writes = " + strconv.FormatBool(k.DurableWrites) + ";" +
		commentText(cql.CommentKeyspace, types.QuoteName(k.Name), k.Comment("", "")) +
		labelText(cql.CommentKeyspace, types.QuoteName(k.Name), k.Label("", ""))
}

// replicationText returns the replication map. The data centers are in the order of r.
func replicationText(r ring.Replication) string {
	// Cassandra shows the class without its package.
	text := "{'class': '" + r.Class.ShortName() + "'"
	if r.Class == ring.Simple {
		text += ", 'replication_factor': '" + strconv.Itoa(r.Factor) + "'"
	}
	// Empty for SimpleStrategy.
	for _, f := range r.Definition().Datacenters {
		text += ", " + cql.QuoteString(f.Datacenter) + ": '" + strconv.Itoa(f.Factor) + "'"
	}
	return text + "}"
}

// commentText returns a newline and the statement that sets the comment of an object, or "" if comment is empty. name
// is qualified and quoted.
//
//	COMMENT ON TYPE ks.u IS 'text';
func commentText(kind cql.CommentKind, name, comment string) string {
	if comment == "" {
		return ""
	}
	return "\nCOMMENT ON " + kind.String() + " " + name + " IS " + cql.QuoteString(comment) + ";"
}

// labelText returns the statement that sets the security label of an object, like commentText. An object's comment
// comes before its label.
func labelText(kind cql.CommentKind, name, label string) string {
	if label == "" {
		return ""
	}
	return "\nSECURITY LABEL ON " + kind.String() + " " + name + " IS " + cql.QuoteString(label) + ";"
}

// typeText returns CREATE TYPE, and the comments and labels of the type and its fields.
//
//	CREATE TYPE ks.u (
//	    f int,
//	    g text
//	);
func typeText(k *schema.Keyspace, t *types.Type) string {
	name := qualified(t.UDTKeyspace(), t.UDTName())
	comments := commentText(cql.CommentType, name, k.Comment(t.UDTName(), ""))
	labels := labelText(cql.CommentType, name, k.Label(t.UDTName(), ""))
	var fields []string
	// The statements about the type come before those about its fields.
	for i, field := range t.FieldNames() {
		fields = append(fields, "    "+types.QuoteName(field)+" "+t.Elems()[i].String())
		comments += commentText(cql.CommentField, name+"."+types.QuoteName(field), k.Comment(t.UDTName(), field))
		labels += labelText(cql.CommentField, name+"."+types.QuoteName(field), k.Label(t.UDTName(), field))
	}
	return "CREATE TYPE " + name + " (\n" + strings.Join(fields, ",\n") + "\n);" + comments + labels
}

// qualified returns keyspace.name, both quoted as needed.
func qualified(keyspace, name string) string {
	return types.QuoteName(keyspace) + "." + types.QuoteName(name)
}

// tableText returns CREATE TABLE, and statements for labels and comments of its columns. WITH INTERNALS adds the id and
// the dropped columns, so that old cells in a restored backup stay dropped.
func tableText(k *schema.Keyspace, t *schema.Table, internals bool) string {
	name := qualified(k.Name, t.Name)
	if k.Virtual {
		return "/*\nWarning: Table " + name + " is a virtual table and cannot be recreated with CQL.\n" +
			"Structure, for reference:\nVIRTUAL TABLE " + name + columnsText(t, false) +
			" WITH " + strings.Join(append(orderText(t), "comment = "+cql.QuoteString(t.Options.Comment)),
			"\n    AND ") + ";\n*/"
	}
	// The order is Cassandra's: storage, id, clustering order, options.
	var with []string
	if t.Compact != schema.NotCompact {
		with = append(with, "COMPACT STORAGE")
	}
	if internals {
		with = append(with, "ID = "+t.ID.String())
	}
	with = append(with, orderText(t)...)
	with = append(with, optionTexts(&t.Options)...)
	text := "CREATE TABLE " + name + columnsText(t, internals) + " WITH " + strings.Join(with, "\n    AND ") + ";"
	// As in Cassandra, which no longer accepts COMPACT STORAGE.
	if t.Compact != schema.NotCompact {
		return "/*\nWarning: Table " + name + " omitted because it has constructs not compatible with CQL (was " +
			"created via legacy API).\n" +
			"Approximate structure, for reference:\n(this should not be used to reproduce this schema)\n\n" + text +
			"\n*/"
	}
	if internals {
		// A dropped column is created and dropped with its timestamp. If its name is in use again, it is also added
		// again.
		for _, d := range droppedByName(t) {
			text += "\nALTER TABLE " + name + " DROP " + types.QuoteName(d.Name) + " USING TIMESTAMP " +
				strconv.FormatInt(d.Micros, 10) + ";"
			if c := t.Column(d.Name); c != nil {
				text += "\nALTER TABLE " + name + " ADD " + columnText(c) + ";"
			}
		}
	}
	// Comments come after these statements: DROP would remove a column's comment.
	text += labelText(cql.CommentTable, name, t.Options.Label)
	for _, c := range t.Columns() {
		// The comment of the table itself is one of its options.
		column := name + "." + types.QuoteName(c.Name)
		text += commentText(cql.CommentColumn, column, c.Comment()) + labelText(cql.CommentColumn, column, c.Label())
	}
	return text
}

// viewText returns CREATE MATERIALIZED VIEW. base is the base table, whose columns WHERE restricts.
//
//	CREATE MATERIALIZED VIEW ks.v AS
//	    SELECT *
//	    FROM ks.t
//	    WHERE a IS NOT NULL AND k IS NOT NULL
//	    PRIMARY KEY (a, k)
//	 WITH CLUSTERING ORDER BY (k ASC)
//	    AND …;
func viewText(base, t *schema.Table, internals bool) string {
	columns := "*"
	// SELECT * includes columns that are added later, so it is not expanded.
	if !t.View.All {
		var names []string
		for _, c := range slices.Concat(t.PartitionKey, t.Clustering, simpleFirst(t.Regulars)) {
			names = append(names, types.QuoteName(c.Name))
		}
		columns = strings.Join(names, ", ")
	}
	var with []string
	if internals {
		with = append(with, "ID = "+t.ID.String())
	}
	with = append(with, orderText(t)...)
	// Cassandra refuses default_time_to_live for views.
	for _, option := range optionTexts(&t.Options) {
		if !strings.HasPrefix(option, "default_time_to_live ") {
			with = append(with, option)
		}
	}
	key := primaryKeyText(t)
	return "CREATE MATERIALIZED VIEW " + qualified(t.Keyspace, t.Name) + " AS\n    SELECT " + columns + "\n    FROM " +
		qualified(base.Keyspace, base.Name) + "\n    WHERE " + t.WhereText(base) + "\n    PRIMARY KEY " + key +
		// Cassandra prints the space before WITH.
		"\n WITH " + strings.Join(with, "\n    AND ") + ";"
}

// indexText returns the statement that creates an index. The schema stores the class of a custom index as an option;
// the statement has it after USING.
//
//	CREATE INDEX i ON ks.t (values(c));
//	CREATE CUSTOM INDEX i ON ks.t (c) USING 'sai' WITH OPTIONS = {'ascii': 'true'};
func indexText(t *schema.Table, ix *schema.Index) string {
	on := " " + types.QuoteName(ix.Name) + " ON " + qualified(t.Keyspace, t.Name) + " (" + t.IndexTargetText(ix) + ")"
	if ix.Class == schema.LegacyIndex {
		return "CREATE INDEX" + on + ";"
	}
	text := "CREATE CUSTOM INDEX" + on + " USING " + cql.QuoteString(ix.Options[indexclass.OptionClass])
	// Clone, because the map belongs to the schema.
	options := maps.Clone(ix.Options)
	delete(options, indexclass.OptionClass)
	if len(options) > 0 {
		text += " WITH OPTIONS = " + mapText(options)
	}
	return text + ";"
}

// droppedByName returns the dropped columns sorted by name.
func droppedByName(t *schema.Table) []schema.DroppedColumn {
	dropped := slices.Clone(t.Dropped)
	slices.SortFunc(dropped, func(a, b schema.DroppedColumn) int { return strings.Compare(a.Name, b.Name) })
	return dropped
}

// columnsText returns the parenthesized list of CREATE TABLE: the columns and, unless it is declared with its only
// column, the primary key. With internals, a column that was dropped and added again has its dropped definition here,
// because the ALTER statements after the CREATE drop and add it. Columns hidden by compact storage are omitted.
//
//	(                               (
//	    k int PRIMARY KEY,              k int,
//	    v text                          c int,
//	)                                   PRIMARY KEY (k, c)
//	                                )
func columnsText(t *schema.Table, internals bool) string {
	single := len(t.PartitionKey) == 1 && len(t.Clustering) == 0 // compact tables have a line for the key
	wasDropped := func(name string) bool {
		return slices.ContainsFunc(t.Dropped, func(d schema.DroppedColumn) bool { return d.Name == name })
	}
	var lines []string
	for _, c := range slices.Concat(t.PartitionKey, t.Clustering, simpleFirst(t.Statics), simpleFirst(t.Regulars)) {
		if t.Hides(c) || internals && wasDropped(c.Name) {
			continue
		}
		line := columnText(c)
		// Such a table stores all columns as static.
		if t.Compact == schema.CompactSparse {
			line = strings.Replace(line, " static", "", 1)
		}
		if single && c.Kind == schema.PartitionKey {
			line += " PRIMARY KEY"
		}
		// t.Columns lists the key columns first, in key order.
		lines = append(lines, line)
	}
	if internals {
		// The dropped definition has the old type; an ALTER adds the new one.
		for _, d := range droppedByName(t) {
			lines = append(lines, columnText(&d.Column))
		}
	}
	if !single {
		lines = append(lines, "PRIMARY KEY "+primaryKeyText(t))
	}
	return " (\n    " + strings.Join(lines, ",\n    ") + "\n)"
}

// simpleFirst sorts single-cell columns before multi-cell columns, as Cassandra stores them. Both groups keep their
// order.
//
//	a list<int>, b int, c text   becomes b, c, a
func simpleFirst(columns []*schema.Column) []*schema.Column {
	var simple, complex []*schema.Column
	for _, c := range columns {
		if c.Type.MultiCell() {
			complex = append(complex, c)
		} else {
			simple = append(simple, c)
		}
	}
	return append(simple, complex...)
}

// columnText returns a column as CREATE TABLE and ALTER TABLE ADD define it. The constraint and the default are stored
// as CQL.
//
//	c int static CHECK c > 0
//	d text DEFAULT 'x'
func columnText(c *schema.Column) string {
	text := types.QuoteName(c.Name) + " " + c.Type.String()
	if c.Kind == schema.Static {
		text += " static"
	}
	// Empty for a column without a mask.
	text += mask.Text(c)
	if check := c.CheckText(); check != "" {
		text += " CHECK " + check
	}
	if value := c.DefaultText(); value != "" {
		text += " DEFAULT " + value
	}
	return text
}

// primaryKeyText returns the key in parentheses. A partition key of several columns has parentheses of its own. Hidden
// clustering columns are omitted.
//
//	(k)   (k, c)   ((a, b), c)
func primaryKeyText(t *schema.Table) string {
	names := func(columns []*schema.Column) []string {
		var list []string
		for _, c := range columns {
			list = append(list, types.QuoteName(c.Name))
		}
		return list
	}
	partition := strings.Join(names(t.PartitionKey), ", ")
	if len(t.PartitionKey) > 1 {
		partition = "(" + partition + ")"
	}
	// Clone, because DeleteFunc modifies its argument.
	return "(" + strings.Join(append([]string{partition},
		names(slices.DeleteFunc(slices.Clone(t.Clustering), t.Hides))...), ", ") + ")"
}

// orderText returns CLUSTERING ORDER BY, or nil without clustering columns. It is a slice because the caller joins the
// options with AND.
//
//	CLUSTERING ORDER BY (c ASC, d DESC)
func orderText(t *schema.Table) []string {
	var parts []string
	// A hidden clustering column is included: only tables that are shown as a comment have one.
	for _, c := range t.Clustering {
		order := " ASC"
		if c.Desc {
			order = " DESC"
		}
		parts = append(parts, types.QuoteName(c.Name)+order)
	}
	if parts == nil {
		return nil
	}
	return []string{"CLUSTERING ORDER BY (" + strings.Join(parts, ", ") + ")"}
}

// optionTexts returns the options in Cassandra's order, which is alphabetical except for memtable. cqld's own options
// come last, and only if they differ from the default, so Cassandra accepts the statement of an ordinary table.
func optionTexts(o *schema.Options) []string {
	integer := func(n int32) string { return strconv.Itoa(int(n)) }
	texts := []string{
		"additional_write_policy = " + cql.QuoteString(o.AdditionalWritePolicy),
		"allow_auto_snapshot = " + strconv.FormatBool(o.AllowAutoSnapshot),
		"bloom_filter_fp_chance = " + schema.FormatDouble(o.BloomFilterFPChance),
		"caching = " + mapText(o.Caching),
		"cdc = " + strconv.FormatBool(o.CDC),
		"comment = " + cql.QuoteString(o.Comment),
		"compaction = " + mapText(o.Compaction),
		"compression = " + mapText(o.Compression),
		"memtable = " + cql.QuoteString(o.Memtable),
		"crc_check_chance = " + schema.FormatDouble(o.CRCCheckChance),
		"default_time_to_live = " + integer(o.DefaultTTL),
		"extensions = " + extensionsText(o.Extensions),
		"gc_grace_seconds = " + integer(o.GCGraceSeconds),
		"incremental_backups = " + strconv.FormatBool(o.IncrementalBackups),
		"max_index_interval = " + integer(o.MaxIndexInterval),
		"memtable_flush_period_in_ms = " + integer(o.MemtableFlushPeriodMs),
		"min_index_interval = " + integer(o.MinIndexInterval),
		"read_repair = " + cql.QuoteString(o.ReadRepair),
		"speculative_retry = " + cql.QuoteString(o.SpeculativeRetry),
	}
	// Cassandra refuses these options.
	usual := schema.DefaultOptions()
	if o.TombstoneGC != usual.TombstoneGC {
		texts = append(texts, "tombstone_gc = "+cql.QuoteString(o.TombstoneGC))
	}
	if o.WriteOrdering != usual.WriteOrdering {
		texts = append(texts, "write_ordering = "+cql.QuoteString(o.WriteOrdering))
	}
	return texts
}

// mapText returns a map literal of strings, sorted by key.
//
//	{'a': '1', 'b': '2'}
func mapText(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, cql.QuoteString(k)+": "+cql.QuoteString(m[k]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// extensionsText returns the extensions as a map of blobs.
func extensionsText(m map[string][]byte) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, cql.QuoteString(k)+": 0x"+hex.EncodeToString(m[k]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
