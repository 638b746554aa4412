package execution

import (
	"bytes"
	"slices"

	"cqld/row"
	"cqld/schema"
)

// VirtualSource generates the rows of tables that no replica stores, such as those in system_schema and system_views.
type VirtualSource interface {
	// Serves reports whether the source generates the rows of t. Otherwise they are read from the Store.
	Serves(t *schema.Table) bool
	// Partitions yields the partitions of t in any order until yield returns false. It may omit partitions and rows
	// that cmd does not select, but need not: the caller filters the result. Rows are sorted by clustering, cells by
	// column and path. The rows are immutable. more means that it yielded as many rows as cmd requests, and omitted
	// those that follow in the order of cmd.
	Partitions(t *schema.Table, cmd *row.ReadCommand, yield func(*row.Partition) bool) (more bool, err error)
}

// withoutColumn returns a row without the cells of a column. r is shared, and therefore not changed.
func withoutColumn(r *row.Row, c *schema.Column) *row.Row {
	stripped := *r
	stripped.Cells = slices.DeleteFunc(slices.Clone(r.Cells), func(cell row.Cell) bool { return cell.Column == c.ID })
	return &stripped
}

// VirtualPage executes a command on a virtual table. It returns all matching rows, or at least as many as the command
// requests; the consumer applies limits. If hidden is not nil, the rows omit that column.
func VirtualPage(source VirtualSource, t *schema.Table, cmd *row.ReadCommand, hidden *schema.Column) ([]byte, error) {
	var partitions []*row.Partition
	// Paging compares positions in this order, but the source yields partitions in any order.
	order := keyOrder(t)
	more, err := source.Partitions(t, cmd, func(x *row.Partition) bool {
		if wantedPartition(cmd, x.Key, order) {
			partitions = append(partitions, x)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(partitions, func(a, b *row.Partition) int { return order(a.Key, b.Key) })
	w := row.NewPageWriter(nil)
	for _, x := range partitions {
		w.Partition(x.Key, &x.Header, nil)
		for i := range x.Rows {
			r := &x.Rows[i]
			// Rows are stored ascending, and read from the end if the command is reversed.
			if cmd.Reversed {
				r = &x.Rows[len(x.Rows)-1-i]
			}
			if slices.ContainsFunc(cmd.Slices, func(s row.Slice) bool { return s.Contains(r.Clustering) }) {
				if hidden != nil {
					r = withoutColumn(r, hidden)
				}
				w.Row(r)
			}
		}
		w.EndPartition()
	}
	return w.Finish(more), nil
}

// keyOrder returns the order of a table's partitions: in Cassandra's virtual tables, the order of the keys. Other
// virtual tables have the order of the ring, like stored tables.
func keyOrder(t *schema.Table) func(a, b row.PartitionKey) int {
	if schema.IsVirtualSystem(t.Keyspace) {
		return func(a, b row.PartitionKey) int { return bytes.Compare(a.Bytes, b.Bytes) }
	}
	return row.PartitionKey.Compare
}

// wantedPartition reports whether a command reads a partition: either the single partition of the command, or a
// partition in its token range after the end of the previous page.
func wantedPartition(cmd *row.ReadCommand, key row.PartitionKey, order func(a, b row.PartitionKey) int) bool {
	if cmd.SinglePartition() {
		return bytes.Equal(cmd.Key.Bytes, key.Bytes)
	}
	return cmd.Range.Tokens.Contains(key.Token) && (cmd.Range.After == nil || order(key, *cmd.Range.After) > 0)
}
