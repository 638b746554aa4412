package coordinator_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/scenario"
)

// droppedRequests contains one request of each kind, for tables t and n, through node 4. It is read-only.
var droppedRequests = map[string]func(c *cluster, done func(error)){
	"write": func(c *cluster, done func(error)) {
		c.Node(4).Coordinator.Write(c.dropWrite(coordinator.WriteSimple, "k1"), done)
	},
	"batch": func(c *cluster, done func(error)) {
		c.Node(4).Coordinator.Write(c.dropWrite(coordinator.WriteUnloggedBatch, "k1", "k2"), done)
	},
	"logged batch": func(c *cluster, done func(error)) {
		c.Node(4).Batches.Write(c.dropWrite(coordinator.WriteBatch, "k1", "k2"), done)
	},
	"counter": func(c *cluster, done func(error)) {
		m := &row.Mutation{}
		m.Reset(c.Counters.StorageID, row.NewPartitionKey([]byte("k1")))
		r := row.NewRow()
		r.Clustering = []byte("a")
		r.Cells = append(r.Cells, row.Cell{Column: c.Counters.Column("v").ID, Value: wire.AppendInt64(nil, 1)})
		m.AddRow(r)
		c.Node(4).Counters.Update(&coordinator.WriteRequest{Mutations: []*row.Mutation{m}, Consistency: ring.Quorum,
			Type: coordinator.WriteCounter, Timeout: 2 * time.Second}, done)
	},
	"conditional change": func(c *cluster, done func(error)) {
		m := c.dropWrite(coordinator.WriteSimple, "k1").Mutations[0]
		c.Node(4).Proposer.CAS(&paxos.CASRequest{Command: c.dropRead(), Serial: ring.Serial, Consistency: ring.Quorum,
			Contention: time.Second, Timeout: 2 * time.Second,
			Update: func([]byte, int64) (*row.Mutation, bool, error) { return m, true, nil },
		}, func(_ bool, _ []byte, err error) { done(err) })
	},
	"read": func(c *cluster, done func(error)) {
		c.Node(4).Coordinator.Read(&coordinator.ReadRequest{Command: c.dropRead(), Consistency: ring.Quorum,
			Timeout: 2 * time.Second},
			func(_ []byte, err error) { done(err) })
	},
	"serial read": func(c *cluster, done func(error)) {
		c.Node(4).Proposer.Read(&coordinator.ReadRequest{Command: c.dropRead(), Consistency: ring.Serial,
			Timeout: 2 * time.Second},
			func(_ []byte, err error) { done(err) })
	},
	"scan": func(c *cluster, done func(error)) {
		cmd := &row.ReadCommand{Table: c.Table.StorageID, Slices: []row.Slice{row.AllRows()}}
		cmd.Range.Tokens = ring.FullRange()
		c.Node(4).Coordinator.Read(&coordinator.ReadRequest{Command: cmd, Consistency: ring.Quorum,
			Timeout: 2 * time.Second},
			func(_ []byte, err error) { done(err) })
	},
}

func (c *cluster) dropWrite(kind coordinator.WriteType, keys ...string) *coordinator.WriteRequest {
	req := &coordinator.WriteRequest{Consistency: ring.Quorum, Type: kind, Timeout: 2 * time.Second}
	for _, k := range keys {
		m := &row.Mutation{}
		m.Reset(c.Table.StorageID, row.NewPartitionKey([]byte(k)))
		scenario.AddRow(m, c.Table, "a", "x", 1)
		req.Mutations = append(req.Mutations, m)
	}
	return req
}

func (c *cluster) dropRead() *row.ReadCommand {
	return &row.ReadCommand{Table: c.Table.StorageID, Key: row.NewPartitionKey([]byte("k1")),
		Slices: []row.Slice{row.AllRows()}}
}

// drop removes both tables from the schema, and their rows from the storage of all nodes.
func (c *cluster) drop() {
	for _, table := range []*schema.Table{c.Table, c.Counters} {
		next, err := schema.Apply(c.Schema, &schema.DropTable{Keyspace: table.Keyspace, Table: table.Name})
		if err != nil {
			c.T.Fatal(err)
		}
		c.Schema = next
		for _, n := range c.Nodes {
			if err := n.Engine.DropTable(table.StorageID); err != nil {
				c.T.Fatal(err)
			}
		}
	}
}

// TestRequestsOfADroppedTable drops the table of a request before it and after every possible number of its messages,
// with a stable ring and with one that has changed, so that replicas refuse the coordinator's plan. Each request is
// answered once. One that begins after the drop gets this error, and nothing is sent.
func TestRequestsOfADroppedTable(t *testing.T) {
	for name, request := range droppedRequests {
		for _, moved := range []bool{false, true} {
			for n := range 10 {
				at := fmt.Sprintf("%s, %d messages before the drop, ring moved: %t", name, n-1, moved)
				c := newCluster(t, scenario.Options{Datacenters: slices.Repeat([]string{"dc1"}, 5),
					Replication: ring.Replication{Class: ring.Simple, Factor: 3}, Owners: 5})
				if moved {
					for _, node := range c.Nodes {
						if node.ID != 4 {
							node.Ring = c.Topology(2, c.Options.Datacenters, 4)
						}
					}
				}
				if n == 0 {
					c.drop()
				}
				answers := 0
				var err error
				request(c, func(e error) { answers, err = answers+1, e })
				if n == 0 {
					var unknown *coordinator.UnknownTable
					if answers != 1 || !errors.As(err, &unknown) || len(c.Flight) > 0 {
						t.Errorf("%s: %d answers, %v; %d messages", at, answers, err, len(c.Flight))
					}
					continue
				}
				c.Deliver(n-1, nil)
				c.drop()
				c.Node(4).Ring = c.Node(1).Ring
				for range 100 {
					c.Deliver(math.MaxInt, nil)
					c.Clock.Advance(100 * time.Millisecond)
				}
				if answers != 1 {
					t.Errorf("%s: %d answers, %v", at, answers, err)
				}
			}
		}
	}
}
