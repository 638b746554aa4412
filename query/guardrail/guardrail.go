package guardrail

import (
	"fmt"
	"slices"
	"strings"

	"cqld/query/invalid"
)

// Flag is a feature that can be disabled.
type Flag int

// The features, in the order of text.
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
	// flags is the number of features and the length of arrays indexed by Flag.
	flags
)

// Flags returns all flags.
func Flags() []Flag { return sequence[Flag](int(flags)) }

// sequence returns the values 0 to n-1.
func sequence[T ~int](n int) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = T(i)
	}
	return list
}

// flagText contains the names of a feature: its option in cassandra.yaml, the name of the guardrail in messages, and
// the feature as the subject of a message. The first two differ for some features, as they do in Cassandra.
type flagText struct{ option, name, feature string }

// text returns the words for f.
func (f Flag) text() flagText {
	// The index names the feature, so that the order of the constants may change.
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

// Threshold identifies a bounded number. The bound is an upper bound, except for MinimumReplicationFactor.
type Threshold int

// The bounded numbers, in the order of Name.
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
	// thresholds is the number of numbers that can be bounded.
	thresholds
)

// Thresholds returns all thresholds.
func Thresholds() []Threshold { return sequence[Threshold](int(thresholds)) }

// Name returns the name of t in messages. In cassandra.yaml it is followed by _warn_threshold or _fail_threshold.
func (t Threshold) Name() string {
	// The names are in the order of the constants.
	return [thresholds]string{"collection_size", "column_value_size", "columns_per_table", "fields_per_udt",
		"in_select_cartesian_product",
		"items_per_collection", "keyspaces", "materialized_views_per_table", "maximum_replication_factor",
		"minimum_replication_factor", "page_size",
		"partition_keys_in_select", "sai_frozen_term_size", "sai_string_term_size", "sai_vector_term_size", "tables",
		"vector_dimensions"}[t]
}

// Bytes reports whether t is a number of bytes, whose options have a unit.
func (t Threshold) Bytes() bool {
	switch t {
	case CollectionSize, ColumnValueSize, SAIFrozenTermSize, SAIStringTermSize, SAIVectorTermSize:
		return true
	}
	return false
}

// Values identifies a set of words in statements. Each word can cause a warning, be ignored, or be rejected.
type Values int

// The sets of words.
const (
	TableProperties Values = iota
	ReadConsistency
	WriteConsistency
	// valueSets is the number of sets.
	valueSets
)

// AllValues returns all sets.
func AllValues() []Values { return sequence[Values](int(valueSets)) }

// Name returns the name of v in messages. In cassandra.yaml it is followed by _warned, _ignored or _disallowed.
func (v Values) Name() string {
	return [valueSets]string{"table_properties", "read_consistency_levels", "write_consistency_levels"}[v]
}

// what returns the words for v in messages.
func (v Values) what() string {
	return [valueSets]string{"Table Properties", "read consistency levels", "write consistency levels"}[v]
}

// Guardrails contains the bounds that the operator configured. The zero value permits everything. It must not change
// after a Guard uses it: requests read it without a lock.
type Guardrails struct {
	// Disabled contains the features that clients must not use, by Flag.
	Disabled [flags]bool
	// Warn and Fail are bounds by Threshold: bytes if Threshold.Bytes, and otherwise a count. A number equal to the
	// bound is permitted; zero and less mean that there is no bound.
	Warn, Fail [thresholds]int64
	// Warned, Ignored and Disallowed contain names of table options and of consistency levels, spelled as Permitted
	// receives them.
	Warned     [valueSets][]string
	Ignored    [valueSets][]string // of TableProperties only
	Disallowed [valueSets][]string
	// ZeroTTLRefused refuses tables with TimeWindowCompactionStrategy and no default_time_to_live; ZeroTTLAccepted
	// omits the warning. ZeroTTLRefused takes precedence.
	ZeroTTLRefused, ZeroTTLAccepted bool
	// IntersectionsRefused refuses reads that filter by several columns that can be changed; IntersectionsAccepted
	// omits the warning. IntersectionsRefused takes precedence.
	IntersectionsRefused, IntersectionsAccepted bool
}

// columnsPerTable is the default bound of the columns of a table, which is unlimited in Cassandra. A table with
// 10,000 columns takes about 1 MB of metadata, and each node encodes it again when the table changes.
const columnsPerTable = 10_000

// Defaults returns Cassandra's defaults, which only bound the terms of indexes, and additionally bounds the columns
// of a table.
func Defaults() Guardrails {
	var g Guardrails
	g.Fail[ColumnsPerTable] = columnsPerTable
	g.Warn[SAIStringTermSize], g.Fail[SAIStringTermSize] = 1<<10, 8<<10
	g.Warn[SAIFrozenTermSize], g.Fail[SAIFrozenTermSize] = 1<<10, 8<<10
	g.Warn[SAIVectorTermSize], g.Fail[SAIVectorTermSize] = 16<<10, 32<<10
	return g
}

// BoundsData reports whether a guardrail bounds statements that read or write data, apart from BoundsTerms and
// Guard.Intersection. The result is computed once, so that requests without guardrails need no Guard. A guardrail
// that query/read or query/write applies must be in the lists below, otherwise it has no effect.
func (g *Guardrails) BoundsData() bool {
	// The other features concern definitions of the schema.
	for _, f := range []Flag{AllowFiltering, GroupBy, NonPartitionRestrictedIndexQuery, ReadBeforeWriteLists,
		UserTimestamps} {
		if g.Disabled[f] {
			return true
		}
	}
	// The other thresholds concern definitions, or terms of indexes (BoundsTerms).
	for _, t := range []Threshold{CollectionSize, ColumnValueSize, InSelectProduct, ItemsPerCollection, PageSize,
		PartitionKeysInSelect} {
		if g.Warn[t] > 0 || g.Fail[t] > 0 {
			return true
		}
	}
	// TableProperties concerns definitions.
	for _, v := range []Values{ReadConsistency, WriteConsistency} {
		if g.Warned[v] != nil || g.Disallowed[v] != nil {
			return true
		}
	}
	return false
}

// BoundsValues reports whether a guardrail bounds the values of cells. Only then do writes examine each cell.
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

// Guard applies guardrails to one request. A nil Guard permits everything. It belongs to the request and is not safe
// for concurrent use, because it appends warnings.
type Guard struct {
	*Guardrails
	// Anonymous means that the client did not log in. Bounds still apply, but warnings that are on by default
	// (ZeroTTL, Intersection) are omitted.
	Anonymous bool
	// Warnings receives the warnings for the response to the client. It must not be nil.
	Warnings *[]string
}

// warn adds a warning to the response.
func (g *Guard) warn(text string) { *g.Warnings = append(*g.Warnings, text) }

// violated returns a message in the form of Cassandra's guardrails. name is the name of the guardrail.
func violated(name, format string, args ...any) string {
	return "Guardrail " + name + " violated: " + fmt.Sprintf(format, args...)
}

// Enabled returns a *invalid.Error if f is disabled. g may be nil.
func (g *Guard) Enabled(f Flag) error { return g.EnabledFor(f, f.text().feature) }

// EnabledFor is Enabled with another name of the feature in the error message.
func (g *Guard) EnabledFor(f Flag, feature string) error {
	if g == nil || !g.Disabled[f] {
		return nil
	}
	text := violated(f.text().name, "%s is not allowed", feature)
	// These two messages have a second sentence in Cassandra.
	switch f {
	case AllowFiltering:
		text += ". ALLOW FILTERING can potentially visit all the data in the table and have unpredictable performance."
	case NonPartitionRestrictedIndexQuery:
		text += ". Executing a query on secondary indexes without partition key restriction might degrade performance"
	}
	return &invalid.Error{Msg: text}
}

// Within adds a warning if n violates the warning threshold of t, and returns a *invalid.Error if it violates the
// failure threshold. what is the subject of the message. g may be nil.
func (g *Guard) Within(t Threshold, n int64, what string) error {
	if g == nil {
		return nil
	}
	switch {
	// Check the failure threshold first: a rejected statement has no warning from the same guardrail.
	case t.beyond(n, g.Fail[t]):
		return &invalid.Error{Msg: violated(t.Name(), "%s", t.message(false, n, g.Fail[t], what))}
	// The statement is executed; its response contains the warning.
	case t.beyond(n, g.Warn[t]):
		g.warn(violated(t.Name(), "%s", t.message(true, n, g.Warn[t], what)))
	}
	return nil
}

// beyond reports whether n violates a bound of t.
func (t Threshold) beyond(n, bound int64) bool {
	if bound <= 0 {
		return false
	}
	// All other thresholds are upper bounds.
	if t == MinimumReplicationFactor {
		return n < bound
	}
	return n > bound
}

// Permitted adds a warning for values that are warned about, returns a *invalid.Error if one is disallowed, and
// returns the values that the caller must ignore. g may be nil.
func (g *Guard) Permitted(v Values, values ...string) (ignored []string, err error) {
	if g == nil {
		return nil, nil
	}
	// A disallowed value rejects the statement, even if it is also in the ignored list.
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

// among returns the values that are in list, in their order; nil if there are none.
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
	// The warning is on by default, so it is limited to clients that logged in; without authentication, all clients
	// would receive it.
	case g.ZeroTTLRefused:
		return &invalid.Error{Msg: violated("zero_ttl_on_twcs", text, "allowed")}
	case !g.ZeroTTLAccepted && !g.Anonymous:
		g.warn(violated("zero_ttl_on_twcs", text, "recommended"))
	}
	return nil
}

// Intersection warns about, or rejects, a read that filters by several mutable columns at a level for which the
// coordinator reconciles rows.
func (g *Guard) Intersection() error {
	const text = "Filtering query with intersection on mutable columns at consistency level requiring coordinator " +
		"reconciliation is not %s. " +
		"Filtering queries involving an intersection on multiple mutable (i.e. non-key) columns over unrepaired " +
		"data at read consistency " +
		"levels that would require coordinator reconciliation may violate the guarantees of those consistency levels."
	switch {
	case g == nil:
	// The warning is on by default and limited to clients that logged in, as in ZeroTTL.
	case g.IntersectionsRefused:
		return &invalid.Error{Msg: violated("intersect_filtering_query", text, "allowed")}
	case !g.IntersectionsAccepted && !g.Anonymous:
		g.warn(violated("intersect_filtering_query", text, "recommended"))
	}
	return nil
}
