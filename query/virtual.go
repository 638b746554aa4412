package query

import (
	"bytes"
	"slices"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// isVirtual says whether the rows of t are made up by this node.
func (p *Processor) isVirtual(t *schema.Table) bool {
	return p.o.Virtual != nil && p.o.Virtual.Serves(t)
}

// checkLocalLevel refuses levels of more than one replica for the system keyspaces that every node
// has for itself. (Cassandra's virtual keyspaces, such as system_views, take every level.)
func checkLocalLevel(t *schema.Table, level ring.Consistency) error {
	if t.Keyspace != "system" && t.Keyspace != "system_schema" {
		return nil
	}
	if need := level.BlockFor(ring.Replication{Class: ring.Simple, Factor: 1}, ""); need > 1 {
		return &coordinator.Unavailable{Consistency: level, Required: need, Alive: 1}
	}
	return nil
}

// virtualPage answers a command on a virtual table with all rows it asks for; limits are left to
// the consumer.
func (p *Processor) virtualPage(t *schema.Table, cmd *row.ReadCommand) ([]byte, error) {
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
				w.Row(r)
			}
		}
		w.EndPartition()
	}
	return w.Finish(false), nil
}

// keyOrder is the order of a table's partitions: virtual tables of Cassandra have that of the keys.
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
