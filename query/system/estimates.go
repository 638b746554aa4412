package system

import (
	"slices"

	"cqld/ring"
	"cqld/schema"
)

// Estimate contains the approximate number and size of a table's partitions on this node. Both are approximations from
// samples. MeanBytes is the mean size of a partition, and Partitions must be cheap, because it is called for each
// range.
type Estimate struct {
	MeanBytes  int64
	Partitions func(ring.Range) int64 // in a range that this node holds
}

// The values of table_estimates.range_type: ranges of which this node is the first replica of all, or of its data
// center.
const (
	primaryRanges      = "primary"
	localPrimaryRanges = "local_primary"
)

// estimateRows adds the rows of system.size_estimates and system.table_estimates. Spark, Hadoop, Flink, Trino and Beam
// read them to divide a table into parts of equal size: a row for each range of which this node is the first replica,
// also for empty tables. The ranges of all nodes together are the whole ring, each once, so a client that reads the
// table on every node has each partition in one part. (CASSANDRA-7688 added the table.)
func (s *Source) estimateRows(b *builder, typed bool) {
	if s.o.Estimate == nil {
		return
	}
	t, self, catalog := s.o.View.Topology(), s.o.View.Self(), s.o.View.Schema()
	for _, name := range catalog.KeyspaceNames() {
		k := catalog.Keyspace(name)
		// Local tables are not divided between nodes. The estimates of other keyspaces are not made.
		if k.Replication.Class == ring.Local || !b.readsPartition(name) {
			continue
		}
		pieces := t.Placement(k.Replication).Ranges(ring.FullRange())
		for _, table := range k.TableNames() {
			if def := k.Table(table); !def.Virtual && b.readsPrefix(table) {
				s.tableEstimate(b, def, pieces, t, self, typed)
			}
		}
	}
}

// tableEstimate adds the rows of one table. Tokens are decimal text; the range excludes its start.
func (s *Source) tableEstimate(b *builder, def *schema.Table, pieces []ring.RangeReplicas, t *ring.Topology,
	self ring.NodeID, typed bool) {
	estimate := s.o.Estimate(def)
	// One row for a range. Both tables have these columns, table_estimates also the type.
	add := func(kind string, r ring.Range) {
		v := values{
			"keyspace_name": text(def.Keyspace), "table_name": text(def.Name), "range_start": text(r.Start.String()),
			"range_end": text(r.End.String()), "partitions_count": bigint(estimate.Partitions(r)),
			"mean_partition_size": bigint(estimate.MeanBytes),
		}
		if typed {
			v["range_type"] = text(kind)
		}
		b.add(v)
	}
	// Pieces are the ranges of the ring with one set of replicas each.
	for _, p := range pieces {
		if typed && len(p.Replicas.Natural) > 0 && p.Replicas.Natural[0] == self {
			add(primaryRanges, p.Range)
		}
		// size_estimates has the ranges of the local datacenter only, as Cassandra.
		if firstLocal(t, p.Replicas.Natural, self) {
			add(localPrimaryRanges, p.Range)
		}
	}
}

// firstLocal reports whether self is the first of the replicas in its data center. replicas are in the order of the
// strategy.
func firstLocal(t *ring.Topology, replicas []ring.NodeID, self ring.NodeID) bool {
	// nil before the node is a member.
	own := t.Node(self)
	if own == nil {
		return false
	}
	at := slices.IndexFunc(replicas, func(id ring.NodeID) bool {
		n := t.Node(id)
		return n != nil && n.Datacenter == own.Datacenter
	})
	return at >= 0 && replicas[at] == self
}
