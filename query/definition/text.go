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
	"cqld/types"
)

// The text of DESCRIBE is identical to Cassandra's, including its two spaces before durable_writes: users compare it,
// and tools execute it.

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

func replicationText(r ring.Replication) string {
	text := "{'class': '" + r.Class.ShortName() + "'"
	if r.Class == ring.Simple {
		text += ", 'replication_factor': '" + strconv.Itoa(r.Factor) + "'"
	}
	for _, f := range r.Datacenters {
		text += ", " + cql.QuoteString(f.Datacenter) + ": '" + strconv.Itoa(f.Factor) + "'"
	}
	return text + "}"
}

// commentText returns the statement that sets the comment on an object, in a line of its own, or nothing without a
// comment.
func commentText(kind cql.CommentKind, name, comment string) string {
	if comment == "" {
		return ""
	}
	return "\nCOMMENT ON " + kind.String() + " " + name + " IS " + cql.QuoteString(comment) + ";"
}

// labelText returns the statement that sets the security label of an object, as commentText does.
func labelText(kind cql.CommentKind, name, label string) string {
	if label == "" {
		return ""
	}
	return "\nSECURITY LABEL ON " + kind.String() + " " + name + " IS " + cql.QuoteString(label) + ";"
}

func typeText(k *schema.Keyspace, t *types.Type) string {
	name := qualified(t.UDTKeyspace(), t.UDTName())
	comments := commentText(cql.CommentType, name, k.Comment(t.UDTName(), ""))
	labels := labelText(cql.CommentType, name, k.Label(t.UDTName(), ""))
	var fields []string
	for i, field := range t.FieldNames() {
		fields = append(fields, "    "+types.QuoteName(field)+" "+t.Elems()[i].String())
		comments += commentText(cql.CommentField, name+"."+types.QuoteName(field), k.Comment(t.UDTName(), field))
		labels += labelText(cql.CommentField, name+"."+types.QuoteName(field), k.Label(t.UDTName(), field))
	}
	return "CREATE TYPE " + name + " (\n" + strings.Join(fields, ",\n") + "\n);" + comments + labels
}

func qualified(keyspace, name string) string {
	return types.QuoteName(keyspace) + "." + types.QuoteName(name)
}

func tableText(k *schema.Keyspace, t *schema.Table, internals bool) string {
	name := qualified(k.Name, t.Name)
	if k.Virtual {
		return "/*\nWarning: Table " + name + " is a virtual table and cannot be recreated with CQL.\n" +
			"Structure, for reference:\nVIRTUAL TABLE " + name + columnsText(t, false) +
			" WITH " + strings.Join(append(orderText(t), "comment = "+cql.QuoteString(t.Options.Comment)),
			"\n    AND ") + ";\n*/"
	}
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
	if t.Compact != schema.NotCompact {
		return "/*\nWarning: Table " + name + " omitted because it has constructs not compatible with CQL (was " +
			"created via legacy API).\n" +
			"Approximate structure, for reference:\n(this should not be used to reproduce this schema)\n\n" + text +
			"\n*/"
	}
	text += labelText(cql.CommentTable, name, t.Options.Label)
	for _, c := range t.Columns() {
		column := name + "." + types.QuoteName(c.Name)
		text += commentText(cql.CommentColumn, column, c.Comment()) + labelText(cql.CommentColumn, column, c.Label())
	}
	if internals {
		for _, d := range droppedByName(t) {
			text += "\nALTER TABLE " + name + " DROP " + types.QuoteName(d.Name) + " USING TIMESTAMP " +
				strconv.FormatInt(d.Micros, 10) + ";"
			if c := t.Column(d.Name); c != nil {
				text += "\nALTER TABLE " + name + " ADD " + columnText(c) + ";"
			}
		}
	}
	return text
}

// viewText returns the definition of a view.
func viewText(base, t *schema.Table, internals bool) string {
	columns := "*"
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
	for _, option := range optionTexts(&t.Options) {
		if !strings.HasPrefix(option, "default_time_to_live ") {
			with = append(with, option)
		}
	}
	key := primaryKeyText(t)
	return "CREATE MATERIALIZED VIEW " + qualified(t.Keyspace, t.Name) + " AS\n    SELECT " + columns + "\n    FROM " +
		qualified(base.Keyspace, base.Name) + "\n    WHERE " + t.WhereText(base) + "\n    PRIMARY KEY " + key +
		"\n WITH " + strings.Join(with, "\n    AND ") + ";"
}

// indexText returns the statement that creates an index.
func indexText(t *schema.Table, ix *schema.Index) string {
	on := " " + types.QuoteName(ix.Name) + " ON " + qualified(t.Keyspace, t.Name) + " (" + t.IndexTargetText(ix) + ")"
	if ix.Class == schema.LegacyIndex {
		return "CREATE INDEX" + on + ";"
	}
	text := "CREATE CUSTOM INDEX" + on + " USING " + cql.QuoteString(ix.Options[schema.IndexClassOption])
	options := maps.Clone(ix.Options)
	delete(options, schema.IndexClassOption)
	if len(options) > 0 {
		text += " WITH OPTIONS = " + mapText(options)
	}
	return text + ";"
}

func droppedByName(t *schema.Table) []schema.DroppedColumn {
	dropped := slices.Clone(t.Dropped)
	slices.SortFunc(dropped, func(a, b schema.DroppedColumn) int { return strings.Compare(a.Name, b.Name) })
	return dropped
}

// columnsText returns the list in parentheses: the columns, and the primary key unless it is written with its only
// column. With internals, a column that was dropped and added again is listed as dropped, because ALTER statements
// after the CREATE drop and add it.
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
		if t.Compact == schema.CompactSparse {
			line = strings.Replace(line, " static", "", 1)
		}
		if single && c.Kind == schema.PartitionKey {
			line += " PRIMARY KEY"
		}
		lines = append(lines, line)
	}
	if internals {
		for _, d := range droppedByName(t) {
			lines = append(lines, columnText(&d.Column))
		}
	}
	if !single {
		lines = append(lines, "PRIMARY KEY "+primaryKeyText(t))
	}
	return " (\n    " + strings.Join(lines, ",\n    ") + "\n)"
}

// simpleFirst sorts single-cell columns before multi-cell columns, as Cassandra stores them.
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

func columnText(c *schema.Column) string {
	text := types.QuoteName(c.Name) + " " + c.Type.String()
	if c.Kind == schema.Static {
		text += " static"
	}
	text += mask.Text(c)
	if check := c.CheckText(); check != "" {
		text += " CHECK " + check
	}
	if value := c.DefaultText(); value != "" {
		text += " DEFAULT " + value
	}
	return text
}

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
	return "(" + strings.Join(append([]string{partition},
		names(slices.DeleteFunc(slices.Clone(t.Clustering), t.Hides))...), ", ") + ")"
}

// orderText returns CLUSTERING ORDER BY if there are clustering columns.
func orderText(t *schema.Table) []string {
	var parts []string
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

// optionTexts returns the options in Cassandra's order. cqld's own options are last, and are omitted if they have the
// default, so that Cassandra accepts the text of an ordinary table.
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
	usual := schema.DefaultOptions()
	if o.TombstoneGC != usual.TombstoneGC {
		texts = append(texts, "tombstone_gc = "+cql.QuoteString(o.TombstoneGC))
	}
	if o.WriteOrdering != usual.WriteOrdering {
		texts = append(texts, "write_ordering = "+cql.QuoteString(o.WriteOrdering))
	}
	return texts
}

func mapText(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, cql.QuoteString(k)+": "+cql.QuoteString(m[k]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func extensionsText(m map[string][]byte) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, cql.QuoteString(k)+": 0x"+hex.EncodeToString(m[k]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
