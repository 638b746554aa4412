package restriction

import (
	"strings"

	"cqld/schema"
)

// AccessKind is a way to find the partitions of a SELECT. EXPLAIN shows the values, and metrics use them as labels,
// so they must not change.
type AccessKind string

// The kinds.
const (
	// Only the named partitions are read.
	AccessPartitionKey AccessKind = "partition key"
	// The partitions with entries of an index are read.
	AccessIndex AccessKind = "index"
	// All partitions, or the partitions of a range of tokens, are read.
	AccessScan AccessKind = "scan"
	// This node generates the rows; no replica is read.
	AccessVirtual AccessKind = "virtual table"
	AccessNone    AccessKind = "none" // no row can match
)

// AccessPath is a way to find the partitions of a SELECT, and whether the SELECT can use it. Reason explains Usable
// to the user of EXPLAIN, whether it is true or false. For example {"partition key", false, "not every column of the
// partition key (a, b) is restricted by = or IN"}.
type AccessPath struct {
	Kind   AccessKind
	Usable bool
	Reason string
}

// AccessPaths returns the candidates for a SELECT on t in the order of their cost, cheapest first. The last one is
// always usable. A virtual table has a single path, because this node generates its rows. If choice has an index, the
// path uses it. choice must not be nil; its Index is nil if no index can be used. The order by cost is fixed for the
// kinds, not estimated. The caller owns the result.
func AccessPaths(t *schema.Table, where *Set, virtual bool, choice *Choice) []AccessPath {
	if virtual {
		return []AccessPath{{AccessVirtual, true, "this node makes the rows"}}
	}
	if choice.Index != nil {
		// An index with a partition key searches the entries of these partitions only.
		place := "all partitions"
		switch {
		case !where.KeyRange:
			place = "the partitions of the key"
		case where.HasToken():
			place = "a range of tokens"
		}
		// A usable index is always used, so other paths are not listed.
		return []AccessPath{{AccessIndex, true, indexNames(t, choice) + ", in " + place}}
	}
	// The reasons are free text for users and may change.
	key := AccessPath{AccessPartitionKey, !where.KeyRange, "every column of the partition key is restricted by = or IN"}
	scan := AccessPath{AccessScan, true, "all partitions of the table are read"}
	// Both paths state the reason why the cheaper one cannot be used.
	if where.KeyRange {
		key.Reason = "not every column of the partition key (" + ColumnNames(t.PartitionKey) +
			") is restricted by = or IN"
		if where.HasToken() {
			key.Reason = "token() does not name partitions"
			scan.Reason = "the partitions of a range of tokens are read"
		}
	}
	return []AccessPath{key, scan}
}

// indexNames names the index of a choice, or the indexes of its union, in the order of their branches: "by_email on
// keys(m)". The text of the target is written as in CREATE INDEX.
func indexNames(t *schema.Table, choice *Choice) string {
	text := func(ix *schema.Index) string { return ix.Name + " on " + t.IndexTargetText(ix) }
	if len(choice.Union) == 0 {
		return text(choice.Index)
	}
	names := []string{text(choice.Index)}
	for _, b := range choice.Union {
		names = append(names, text(b.Index))
	}
	return "union of " + strings.Join(names, ", ")
}
