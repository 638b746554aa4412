package query

import (
	"bytes"
	"slices"

	"cqld/auth"
	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// isVirtual reports whether this node generates the rows of t.
func (p *Processor) isVirtual(t *schema.Table) bool {
	return p.o.Virtual != nil && p.o.Virtual.Serves(t)
}

// checkLocalLevel refuses levels of more than one replica for the system keyspaces that are local to every node.
// (Cassandra's virtual keyspaces, such as system_views, accept every level.)
func checkLocalLevel(t *schema.Table, level ring.Consistency) error {
	if t.Keyspace != "system" && t.Keyspace != "system_schema" {
		return nil
	}
	if need := level.BlockFor(ring.Replication{Class: ring.Simple, Factor: 1}, ""); need > 1 {
		return &coordinator.Unavailable{Consistency: level, Required: need, Alive: 1}
	}
	return nil
}

// traceLevel returns the level at which a table is read. A ring of one node answers for both replicas of system_traces, so that a
// client that reads its traces at the level of its statements, as cqlsh does, finds them.
func (p *Processor) traceLevel(t *schema.Table, level ring.Consistency) ring.Consistency {
	if t.Keyspace == "system_traces" && !level.IsSerial() && len(p.o.View.Topology().Nodes()) == 1 {
		return ring.One
	}
	return level
}

// hidden returns the column of a virtual table that a client may not read although it may read the others, or nil: only
// superusers see hashes of passwords. The rows do not contain it, so that no restriction, function or order depends on it.
func (p *Processor) hidden(t *schema.Table, client auth.Principal) *schema.Column {
	if t.Keyspace != "system_auth" || t.Name != "roles" || p.o.Roles != nil && p.o.Roles.IsSuperuser(client) {
		return nil
	}
	return t.Column("salted_hash")
}

// withoutColumn returns a row without the cells of a column.
func withoutColumn(r *row.Row, c *schema.Column) *row.Row {
	stripped := *r
	stripped.Cells = slices.DeleteFunc(slices.Clone(r.Cells), func(cell row.Cell) bool { return cell.Column == c.ID })
	return &stripped
}

// virtualPage executes a command on a virtual table and returns all matching rows that the client may see. The consumer
// applies limits.
func (p *Processor) virtualPage(t *schema.Table, cmd *row.ReadCommand, client auth.Principal) ([]byte, error) {
	hidden := p.hidden(t, client)
	var partitions []*row.Partition
	order := keyOrder(t)
	err := p.o.Virtual.Partitions(t, cmd, func(x *row.Partition) bool {
		if wanted(cmd, x.Key, order) {
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
	return w.Finish(false), nil
}

// keyOrder returns the order of a table's partitions: in Cassandra's virtual tables, that of the keys.
func keyOrder(t *schema.Table) func(a, b row.PartitionKey) int {
	if schema.IsVirtualSystem(t.Keyspace) {
		return func(a, b row.PartitionKey) int { return bytes.Compare(a.Bytes, b.Bytes) }
	}
	return row.PartitionKey.Compare
}

func wanted(cmd *row.ReadCommand, key row.PartitionKey, order func(a, b row.PartitionKey) int) bool {
	if cmd.SinglePartition() {
		return bytes.Equal(cmd.Key.Bytes, key.Bytes)
	}
	return cmd.Range.Tokens.Contains(key.Token) && (cmd.Range.After == nil || order(key, *cmd.Range.After) > 0)
}
