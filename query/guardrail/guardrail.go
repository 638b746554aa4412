package guardrail

import (
	"fmt"
	"slices"
	"strings"

	"cqld/query/invalid"
)

// Flag is a feature that can be disabled.
type Flag int

// The features.
const (
	AllowFiltering Flag = iota
	AlterTable
	CompactTables
	DropKeyspace
	DropTruncateTable
	GroupBy
	NonPartitionRestrictedIndexQuery
	ReadBeforeWriteLists
	SimpleStrategy
	UncompressedTables
	UserTimestamps
	VectorType
	flags
)

// Flags returns all flags.
func Flags() []Flag { return sequence[Flag](int(flags)) }

func sequence[T ~int](n int) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = T(i)
	}
	return list
}

type flagText struct{ option, name, feature string }

func (f Flag) text() flagText {
	return [flags]flagText{
		AllowFiltering: {"allow_filtering_enabled", "allow_filtering", "Querying with ALLOW FILTERING"},
		AlterTable:     {"alter_table_enabled", "alter_table", "ALTER TABLE changing columns"},
		CompactTables:  {"compact_tables_enabled", "compact_tables", "Creation of new COMPACT STORAGE tables"},
		DropKeyspace:   {"drop_keyspace_enabled", "drop_keyspace_enabled", "DROP KEYSPACE functionality"},
		DropTruncateTable: {"drop_truncate_table_enabled", "drop_truncate_table_enabled",
			"DROP and TRUNCATE TABLE functionality"},
		GroupBy: {"group_by_enabled", "group_by", "GROUP BY functionality"},
		NonPartitionRestrictedIndexQuery: {"non_partition_restricted_index_query_enabled",
			"non_partition_restricted_index_query_enabled",
			"Non-partition key restricted query"},
		ReadBeforeWriteLists: {"read_before_write_list_operations_enabled", "read_before_write_list_operations",
			"List operation"},
		SimpleStrategy:     {"simplestrategy_enabled", "simplestrategy", "SimpleStrategy"},
		UncompressedTables: {"uncompressed_tables_enabled", "uncompressed_tables_enabled", "Uncompressed table"},
		UserTimestamps: {"user_timestamps_enabled", "user_timestamps",
			"User provided timestamps (USING TIMESTAMP)"},
		VectorType: {"vector_type_enabled", "vector_type_enabled", "Vector type"},
	}[f]
}

// Option returns the name of f in cassandra.yaml.
func (f Flag) Option() string { return f.text().option }

// Threshold is a number that is bounded from above or, for MinimumReplicationFactor, from below.
type Threshold int

// The numbers.
const (
	CollectionSize Threshold = iota
	ColumnValueSize
	ColumnsPerTable
	FieldsPerUDT
	InSelectProduct
	ItemsPerCollection
	Keyspaces
	MaterializedViewsPerTable
	MaximumReplicationFactor
	MinimumReplicationFactor
	PageSize
	PartitionKeysInSelect
	SAIFrozenTermSize
	SAIStringTermSize
	SAIVectorTermSize
	Tables
	VectorDimensions
	thresholds
)

// Thresholds returns all thresholds.
func Thresholds() []Threshold { return sequence[Threshold](int(thresholds)) }

// Name returns the name of t in messages. In cassandra.yaml it is followed by _warn_threshold or _fail_threshold.
func (t Threshold) Name() string {
	return [thresholds]string{"collection_size", "column_value_size", "columns_per_table", "fields_per_udt",
		"in_select_cartesian_product",
		"items_per_collection", "keyspaces", "materialized_views_per_table", "maximum_replication_factor",
		"minimum_replication_factor", "page_size",
		"partition_keys_in_select", "sai_frozen_term_size", "sai_string_term_size", "sai_vector_term_size", "tables",
		"vector_dimensions"}[t]
}

// Bytes reports whether t is a number of bytes, which options state with a unit.
func (t Threshold) Bytes() bool {
	switch t {
	case CollectionSize, ColumnValueSize, SAIFrozenTermSize, SAIStringTermSize, SAIVectorTermSize:
		return true
	}
	return false
}

// Values is a set of words, of which some can be warned of, ignored or refused.
type Values int

// The sets.
const (
	TableProperties Values = iota
	ReadConsistency
	WriteConsistency
	valueSets
)

// AllValues returns all sets.
func AllValues() []Values { return sequence[Values](int(valueSets)) }

// Name returns the name of v in messages. In cassandra.yaml it is followed by _warned, _ignored or _disallowed.
func (v Values) Name() string {
	return [valueSets]string{"table_properties", "read_consistency_levels", "write_consistency_levels"}[v]
}

func (v Values) what() string {
	return [valueSets]string{"Table Properties", "read consistency levels", "write consistency levels"}[v]
}

// Guardrails is what the operator configured. The zero value permits everything.
type Guardrails struct {
	Disabled   [flags]bool
	Warn, Fail [thresholds]int64 // 0: no bound
	Warned     [valueSets][]string
	Ignored    [valueSets][]string // of TableProperties only
	Disallowed [valueSets][]string
	// ZeroTTLRefused refuses tables with TimeWindowCompactionStrategy and no default_time_to_live; ZeroTTLAccepted
	// omits the warning.
	ZeroTTLRefused, ZeroTTLAccepted bool
	// IntersectionsRefused refuses reads that filter by several columns that can be changed; IntersectionsAccepted
	// omits the warning.
	IntersectionsRefused, IntersectionsAccepted bool
}

// columnsPerTable is the default bound of the columns of a table, which Cassandra does not have: a definition of 10,000
// columns takes about 1 MB in the metadata, which each node encodes again when the table changes.
const columnsPerTable = 10_000

// Defaults returns Cassandra's defaults, which bound the terms of indexes, and a bound of the columns of tables.
func Defaults() Guardrails {
	var g Guardrails
	g.Fail[ColumnsPerTable] = columnsPerTable
	g.Warn[SAIStringTermSize], g.Fail[SAIStringTermSize] = 1<<10, 8<<10
	g.Warn[SAIFrozenTermSize], g.Fail[SAIFrozenTermSize] = 1<<10, 8<<10
	g.Warn[SAIVectorTermSize], g.Fail[SAIVectorTermSize] = 16<<10, 32<<10
	return g
}

// BoundsData reports whether a guardrail bounds statements that read or write data, apart from BoundsTerms and
// Guard.Intersection.
func (g *Guardrails) BoundsData() bool {
	for _, f := range []Flag{AllowFiltering, GroupBy, NonPartitionRestrictedIndexQuery, ReadBeforeWriteLists,
		UserTimestamps} {
		if g.Disabled[f] {
			return true
		}
	}
	for _, t := range []Threshold{CollectionSize, ColumnValueSize, InSelectProduct, ItemsPerCollection, PageSize,
		PartitionKeysInSelect} {
		if g.Warn[t] > 0 || g.Fail[t] > 0 {
			return true
		}
	}
	for _, v := range []Values{ReadConsistency, WriteConsistency} {
		if g.Warned[v] != nil || g.Disallowed[v] != nil {
			return true
		}
	}
	return false
}

// BoundsValues reports whether a guardrail bounds the values of cells.
func (g *Guard) BoundsValues() bool {
	if g == nil {
		return false
	}
	for _, t := range []Threshold{CollectionSize, ColumnValueSize, ItemsPerCollection} {
		if g.Warn[t] > 0 || g.Fail[t] > 0 {
			return true
		}
	}
	return false
}

// Guard applies guardrails to one request. A nil Guard permits everything.
type Guard struct {
	*Guardrails
	Anonymous bool      // the client did not log in
	Warnings  *[]string // receives warnings
}

func (g *Guard) warn(text string) { *g.Warnings = append(*g.Warnings, text) }

func violated(name, format string, args ...any) string {
	return "Guardrail " + name + " violated: " + fmt.Sprintf(format, args...)
}

// Enabled returns a *invalid.Error if f is disabled.
func (g *Guard) Enabled(f Flag) error { return g.EnabledFor(f, f.text().feature) }

// EnabledFor is Enabled for a feature in the words of the message.
func (g *Guard) EnabledFor(f Flag, feature string) error {
	if g == nil || !g.Disabled[f] {
		return nil
	}
	text := violated(f.text().name, "%s is not allowed", feature)
	switch f {
	case AllowFiltering:
		text += ". ALLOW FILTERING can potentially visit all the data in the table and have unpredictable performance."
	case NonPartitionRestrictedIndexQuery:
		text += ". Executing a query on secondary indexes without partition key restriction might degrade performance"
	}
	return &invalid.Error{Msg: text}
}

// Within warns of a number beyond the warning threshold of t, or returns a *invalid.Error if it is beyond the other
// one. what is the subject of the message.
func (g *Guard) Within(t Threshold, n int64, what string) error {
	if g == nil {
		return nil
	}
	switch {
	case t.beyond(n, g.Fail[t]):
		return &invalid.Error{Msg: violated(t.Name(), "%s", t.message(false, n, g.Fail[t], what))}
	case t.beyond(n, g.Warn[t]):
		g.warn(violated(t.Name(), "%s", t.message(true, n, g.Warn[t], what)))
	}
	return nil
}

func (t Threshold) beyond(n, bound int64) bool {
	if bound <= 0 {
		return false
	}
	if t == MinimumReplicationFactor {
		return n < bound
	}
	return n > bound
}

// Permitted warns of values, or returns a *invalid.Error if one of them is disallowed. It returns those to be
// ignored.
func (g *Guard) Permitted(v Values, values ...string) (ignored []string, err error) {
	if g == nil {
		return nil, nil
	}
	if bad := among(values, g.Disallowed[v]); bad != nil {
		return nil, &invalid.Error{Msg: violated(v.Name(),
			"Provided values [%s] are not allowed for %s (disallowed values are: [%s])",
			strings.Join(bad, ", "), v.what(), strings.Join(g.Disallowed[v], ", "))}
	}
	if ignored = among(values, g.Ignored[v]); ignored != nil {
		g.warn(violated(v.Name(), "Ignoring provided values [%s] as they are not supported for %s (ignored values "+
			"are: [%s])",
			strings.Join(ignored, ", "), v.what(), strings.Join(g.Ignored[v], ", ")))
	}
	if warned := among(values, g.Warned[v]); warned != nil {
		g.warn(violated(v.Name(), "Provided values [%s] are not recommended for %s (warned values are: [%s])",
			strings.Join(warned, ", "), v.what(), strings.Join(g.Warned[v], ", ")))
	}
	return ignored, nil
}

func among(values, list []string) (found []string) {
	for _, v := range values {
		if slices.Contains(list, v) {
			found = append(found, v)
		}
	}
	return found
}

// ZeroTTL warns of a table with TimeWindowCompactionStrategy and no default_time_to_live, or refuses it.
func (g *Guard) ZeroTTL() error {
	const text = "0 default_time_to_live on a table with TimeWindowCompactionStrategy compaction strategy is not " +
		"%s. It is suspicious to " +
		"use default_time_to_live set to 0 with such compaction strategy. Please keep in mind that data will not " +
		"start to automatically " +
		"expire after they are older than a respective compaction window unit of a certain size. Please set TTL for " +
		"your INSERT or UPDATE " +
		"statements if you expect data to be expired as table settings will not do it. "
	switch {
	case g == nil:
	case g.ZeroTTLRefused:
		return &invalid.Error{Msg: violated("zero_ttl_on_twcs", text, "allowed")}
	case !g.ZeroTTLAccepted && !g.Anonymous:
		g.warn(violated("zero_ttl_on_twcs", text, "recommended"))
	}
	return nil
}

// Intersection warns of a read that filters by several columns that can be changed, at a level for which coordinators
// reconcile rows, or refuses it.
func (g *Guard) Intersection() error {
	const text = "Filtering query with intersection on mutable columns at consistency level requiring coordinator " +
		"reconciliation is not %s. " +
		"Filtering queries involving an intersection on multiple mutable (i.e. non-key) columns over unrepaired " +
		"data at read consistency " +
		"levels that would require coordinator reconciliation may violate the guarantees of those consistency levels."
	switch {
	case g == nil:
	case g.IntersectionsRefused:
		return &invalid.Error{Msg: violated("intersect_filtering_query", text, "allowed")}
	case !g.IntersectionsAccepted && !g.Anonymous:
		g.warn(violated("intersect_filtering_query", text, "recommended"))
	}
	return nil
}
