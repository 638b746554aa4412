package batchlog_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/scenario"
)

// TestBatchIsReplayedAsAWholeOrNotAtAll writes a logged batch to two tables, whose coordinator fails when holders have
// the batch. gc_grace_seconds of one table passes before a holder replays it. A replay of the other part would leave
// half of the batch on the replicas. A holder that drops the batch reports its partitions for repair, because the
// coordinator may have written a part of it.
func TestBatchIsReplayedAsAWholeOrNotAtAll(t *testing.T) {
	for _, c := range []struct {
		name  string
		grace int32 // of the second table, in seconds
		want  int   // tables whose row a replica has
	}{
		{"before gc_grace_seconds", 600, 2},
		{"after gc_grace_seconds of one table", 30, 0},
		{"gc_grace_seconds is zero", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := scenario.New(t, scenario.Options{Datacenters: slices.Repeat([]string{"dc1"}, 4), Owners: 4,
				Replication: ring.Replication{Class: ring.Simple, Factor: 4}})
			tables := []*schema.Table{cluster.Table, cluster.Schema.Table("ks", "o")}
			tables[1].Options.GCGraceSeconds = c.grace
			var mutations []*row.Mutation
			for _, table := range tables {
				m := &row.Mutation{}
				m.Reset(table.StorageID, row.NewPartitionKey([]byte("k")))
				x := row.NewRow()
				x.Clustering, x.Liveness.Timestamp = []byte("a"), 1
				m.AddRow(x)
				mutations = append(mutations, m)
			}
			type partition struct {
				table schema.StorageID
				token ring.Token
			}
			lost := map[partition]bool{}
			for _, n := range cluster.Nodes {
				n.Batches.OnLost(func(table schema.StorageID, token ring.Token) {
					if n.Batches.Held() == 0 {
						t.Errorf("node %d reports a partition after it has removed the batch", n.ID)
					}
					lost[partition{table, token}] = true
				})
			}
			cluster.Node(1).Batches.Write(&coordinator.WriteRequest{Mutations: mutations, Consistency: ring.Quorum,
				Type: coordinator.WriteBatch, Timeout: 20 * time.Second}, func(error) {})
			// Two holders store the batch, and the coordinator fails before it writes.
			cluster.Deliver(4, nil)
			cluster.Flight = nil
			cluster.Node(1).Start()
			for range 4 {
				cluster.Clock.Advance(12 * time.Second)
				cluster.Deliver(math.MaxInt, nil)
			}
			got := 0
			for _, table := range tables {
				page, err := cluster.Node(4).Engine.Read(nil, &row.ReadCommand{Table: table.StorageID,
					Key: row.NewPartitionKey([]byte("k")), Slices: []row.Slice{row.AllRows()}})
				if err != nil {
					t.Fatal(err)
				}
				if scenario.FormatPage(page) != "nothing" {
					got++
				}
			}
			if got != c.want {
				t.Errorf("node 4 has the rows of %d tables, want %d", got, c.want)
			}
			for _, m := range mutations {
				if lost[partition{m.Table, m.Key.Token}] != (c.want == 0) {
					t.Errorf("partitions to be repaired: %v", lost)
				}
			}
			for _, n := range cluster.Nodes {
				if n.Batches.Held() != 0 {
					t.Errorf("node %d still holds the batch", n.ID)
				}
			}
		})
	}
}
