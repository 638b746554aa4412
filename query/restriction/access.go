package restriction

import (
	"strings"

	"cqld/schema"
)

// AccessKind is a way to find the partitions of a SELECT. The values are part of the answers of EXPLAIN and of the
// labels of metrics, so they must not change. EXPLAIN shows the kind of the path that was taken.
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

// AccessPath is a way to find the partitions of a SELECT, and whether it can. Reason explains Usable to the user of
// EXPLAIN, whether it is true or false. For example {"partition key", false, "not every column of the partition key (a,
// b) is restricted by = or IN"}.
type AccessPath struct {
	Kind   AccessKind
	Usable bool
	Reason string
}

// AccessPaths returns the candidates for a SELECT on t in the order of their cost, cheapest first. The last one is
// always usable. A virtual table has one: this node generates its rows. Rows are found by the indexes of choice if it
// has some. choice must not be nil; its Index is nil if no index can be used. The cost is an order of kinds, not an
// estimate. The caller owns the result.
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
		// An index that can be used always is: other paths are not listed.
		return []AccessPath{{AccessIndex, true, indexNames(t, choice) + ", in " + place}}
	}
	// The reasons are texts for people, and may change.
	key := AccessPath{AccessPartitionKey, !where.KeyRange, "every column of the partition key is restricted by = or IN"}
	scan := AccessPath{AccessScan, true, "all partitions of the table are read"}
	// Both paths get the reason why the cheaper one is not possible.
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
