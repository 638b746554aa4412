// Package access names the ways by which the rows of a SELECT are found, and says why one can be used or not: EXPLAIN
// shows them, and metrics and the slow query log count by them.
package access

import (
	"strings"

	"cqld/query/restriction"
	"cqld/schema"
)

// Kind is a way to find the partitions of a SELECT.
type Kind string

// The kinds.
const (
	PartitionKey Kind = "partition key"
	Index        Kind = "index"
	Scan         Kind = "scan"
	Virtual      Kind = "virtual table"
	None         Kind = "none" // no row can match
)

// Path is a way to find the partitions of a SELECT, and whether it can.
type Path struct {
	Kind   Kind
	Usable bool
	Reason string
}

// Paths returns the candidates for a SELECT on t in the order of their cost, cheapest first. The last one is always
// usable. A virtual table has one: this node generates its rows. Rows are found by the indexes of choice if it has
// some.
func Paths(t *schema.Table, where *restriction.Set, virtual bool, choice *restriction.Choice) []Path {
	if virtual {
		return []Path{{Virtual, true, "this node makes the rows"}}
	}
	if choice.Index != nil {
		place := "all partitions"
		switch {
		case !where.KeyRange:
			place = "the partitions of the key"
		case where.HasToken():
			place = "a range of tokens"
		}
		return []Path{{Index, true, indexes(t, choice) + ", in " + place}}
	}
	key := Path{PartitionKey, !where.KeyRange, "every column of the partition key is restricted by = or IN"}
	scan := Path{Scan, true, "all partitions of the table are read"}
	if where.KeyRange {
		key.Reason = "not every column of the partition key (" + restriction.ColumnNames(t.PartitionKey) +
			") is restricted by = or IN"
		if where.HasToken() {
			key.Reason = "token() does not name partitions"
			scan.Reason = "the partitions of a range of tokens are read"
		}
	}
	return []Path{key, scan}
}

// indexes names the index of a choice, or the indexes of its union, in the order of their branches.
func indexes(t *schema.Table, choice *restriction.Choice) string {
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
