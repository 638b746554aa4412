package coordinator_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// TestBatchWhileHoldersDie writes logged batches while nodes die at any step of the exchange. The coordinator detects each death
// after up to 1.5 s. While one other node is alive, each batch succeeds within its timeout of 2 s; and when the first mutation is
// sent, the required number of nodes has the batch on disk: two, or one if only one other node is considered alive.
func TestBatchWhileHoldersDie(t *testing.T) {
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var dcs []string
		for range 3 + rnd.IntN(4) {
			dcs = append(dcs, "dc1")
		}
		c := newCluster(t, clusterOptions{datacenters: dcs, owners: len(dcs), replication: ring.Replication{Class: ring.Simple, Factor: len(dcs)},
			table: func(o *schema.Options) { o.SpeculativeRetry = "NEVER" }})
		var mutations []*row.Mutation
		for _, k := range []string{"k1", "k2"} {
			m := &row.Mutation{}
			m.Reset(c.table.StorageID, row.NewPartitionKey([]byte(k)))
			addRow(m, c.table, "a", "x", 10)
			mutations = append(mutations, m)
		}
		victims := rnd.Perm(len(dcs) - 1)[:1+rnd.IntN(len(dcs)-2)]
		for _, v := range victims {
			victim := ring.NodeID(v + 2)
			dies := time.Duration(rnd.IntN(200)) * time.Millisecond
			if rnd.IntN(2) == 0 {
				dies = 0
			}
			c.clock.After(dies, func() {
				c.cut[link{1, victim}], c.cut[link{victim, 1}] = true, true
			})
			c.clock.After(dies+time.Duration(rnd.IntN(1500))*time.Millisecond, func() { c.node(1).down[victim] = true })
		}
		var outcome error
		done := false
		c.node(1).batches.Write(&coordinator.WriteRequest{Mutations: mutations, Consistency: ring.One, Type: coordinator.WriteBatch,
			Timeout: 2 * time.Second}, func(err error) { outcome, done = err, true })
		sent := false
		for range 300 {
			for range rnd.IntN(4) {
				c.deliver(1, func(link) bool { return true })
			}
			for _, l := range c.flight {
				if !sent && l.from == 1 && l.what == "mutation" {
					sent = true
					has, believed := 0, 0
					for _, n := range c.nodes[1:] {
						has += n.batches.Held()
						if c.node(1).Alive(n.id) {
							believed++
						}
					}
					if has < min(2, believed) {
						t.Errorf("seed %d: %d nodes have the batch when it is sent; %d others live", seed, has, believed)
					}
				}
			}
			c.clock.tick(10 * time.Millisecond)
		}
		if !done || outcome != nil {
			t.Errorf("seed %d: %d nodes, of which %v die: %v\n%s", seed, len(dcs), victims, fmt.Sprint(outcome), c.take())
		}
	}
}
