package batchlog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/scenario"
)

// TestBatchWhileHoldersDie writes logged batches while nodes die at any step of the exchange. The coordinator detects
// each death after up to 1.5 s. While one other node is alive, each batch succeeds within its timeout of 2 s; and when
// the first mutation is sent, the required number of nodes has the batch on disk: two, or one if only one other node is
// considered alive.
func TestBatchWhileHoldersDie(t *testing.T) {
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var dcs []string
		for range 3 + rnd.IntN(4) {
			dcs = append(dcs, "dc1")
		}
		c := scenario.New(t, scenario.Options{Datacenters: dcs, Owners: len(dcs),
			Replication: ring.Replication{Class: ring.Simple, Factor: len(dcs)},
			Table:       func(o *schema.Options) { o.SpeculativeRetry = "NEVER" }})
		var mutations []*row.Mutation
		for _, k := range []string{"k1", "k2"} {
			m := &row.Mutation{}
			m.Reset(c.Table.StorageID, row.NewPartitionKey([]byte(k)))
			scenario.AddRow(m, c.Table, "a", "x", 10)
			mutations = append(mutations, m)
		}
		victims := rnd.Perm(len(dcs) - 1)[:1+rnd.IntN(len(dcs)-2)]
		for _, v := range victims {
			victim := ring.NodeID(v + 2)
			dies := time.Duration(rnd.IntN(200)) * time.Millisecond
			if rnd.IntN(2) == 0 {
				dies = 0
			}
			c.Clock.After(dies, func() {
				c.Cut[scenario.Link{From: 1, To: victim}], c.Cut[scenario.Link{From: victim, To: 1}] = true, true
			})
			c.Clock.After(dies+time.Duration(rnd.IntN(1500))*time.Millisecond, func() { c.Node(1).Down[victim] = true })
		}
		var outcome error
		done := false
		c.Node(1).Batches.Write(&coordinator.WriteRequest{Mutations: mutations, Consistency: ring.One,
			Type:    coordinator.WriteBatch,
			Timeout: 2 * time.Second}, func(err error) { outcome, done = err, true })
		sent := false
		for range 300 {
			for range rnd.IntN(4) {
				c.Deliver(1, func(scenario.Link) bool { return true })
			}
			for _, l := range c.Flight {
				if !sent && l.From == 1 && l.What == "mutation" {
					sent = true
					has, believed := 0, 0
					for _, n := range c.Nodes[1:] {
						has += n.Batches.Held()
						if c.Node(1).Alive(n.ID) {
							believed++
						}
					}
					if has < min(2, believed) {
						t.Errorf("seed %d: %d nodes have the batch when it is sent; %d others are alive", seed, has,
							believed)
					}
				}
			}
			c.Clock.Advance(10 * time.Millisecond)
		}
		if !done || outcome != nil {
			t.Errorf("seed %d: %d nodes, %v die: %v\n%s", seed, len(dcs), victims, fmt.Sprint(outcome),
				c.Take())
		}
	}
}
