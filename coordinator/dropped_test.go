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
)

// droppedRequests contains one request of each kind, for tables t and n, through node 4. It is read-only.
var droppedRequests = map[string]func(c *cluster, done func(error)){
	"write": func(c *cluster, done func(error)) {
		c.node(4).coord.Write(c.dropWrite(coordinator.WriteSimple, "k1"), done)
	},
	"batch": func(c *cluster, done func(error)) {
		c.node(4).coord.Write(c.dropWrite(coordinator.WriteUnloggedBatch, "k1", "k2"), done)
	},
	"logged batch": func(c *cluster, done func(error)) {
		c.node(4).batches.Write(c.dropWrite(coordinator.WriteBatch, "k1", "k2"), done)
	},
	"counter": func(c *cluster, done func(error)) {
		m := &row.Mutation{}
		m.Reset(c.counts.StorageID, row.NewPartitionKey([]byte("k1")))
		r := row.NewRow()
		r.Clustering = []byte("a")
		r.Cells = append(r.Cells, row.Cell{Column: c.counts.Column("v").ID, Value: wire.AppendInt64(nil, 1)})
		m.AddRow(r)
		c.node(4).parts.counters.Update(&coordinator.WriteRequest{Mutations: []*row.Mutation{m}, Consistency: ring.Quorum,
			Type: coordinator.WriteCounter, Timeout: 2 * time.Second}, done)
	},
	"conditional change": func(c *cluster, done func(error)) {
		m := c.dropWrite(coordinator.WriteSimple, "k1").Mutations[0]
		c.node(4).proposer.CAS(&paxos.CASRequest{Command: c.dropRead(), Serial: ring.Serial, Consistency: ring.Quorum,
			Contention: time.Second, Timeout: 2 * time.Second,
			Update: func([]byte, int64) (*row.Mutation, bool, error) { return m, true, nil },
		}, func(_ bool, _ []byte, err error) { done(err) })
	},
	"read": func(c *cluster, done func(error)) {
		c.node(4).coord.Read(&coordinator.ReadRequest{Command: c.dropRead(), Consistency: ring.Quorum, Timeout: 2 * time.Second},
			func(_ []byte, err error) { done(err) })
	},
	"serial read": func(c *cluster, done func(error)) {
		c.node(4).proposer.Read(&coordinator.ReadRequest{Command: c.dropRead(), Consistency: ring.Serial, Timeout: 2 * time.Second},
			func(_ []byte, err error) { done(err) })
	},
	"scan": func(c *cluster, done func(error)) {
		cmd := &row.ReadCommand{Table: c.table.StorageID, Slices: []row.Slice{row.AllRows()}}
		cmd.Range.Tokens = ring.FullRange()
		c.node(4).coord.Read(&coordinator.ReadRequest{Command: cmd, Consistency: ring.Quorum, Timeout: 2 * time.Second},
			func(_ []byte, err error) { done(err) })
	},
}

func (c *cluster) dropWrite(kind coordinator.WriteType, keys ...string) *coordinator.WriteRequest {
	req := &coordinator.WriteRequest{Consistency: ring.Quorum, Type: kind, Timeout: 2 * time.Second}
	for _, k := range keys {
		m := &row.Mutation{}
		m.Reset(c.table.StorageID, row.NewPartitionKey([]byte(k)))
		addRow(m, c.table, "a", "x", 1)
		req.Mutations = append(req.Mutations, m)
	}
	return req
}

func (c *cluster) dropRead() *row.ReadCommand {
	return &row.ReadCommand{Table: c.table.StorageID, Key: row.NewPartitionKey([]byte("k1")), Slices: []row.Slice{row.AllRows()}}
}

// drop removes both tables from the schema, and their rows from the storage of all nodes.
func (c *cluster) drop() {
	for _, table := range []*schema.Table{c.table, c.counts} {
		next, err := schema.Apply(c.schema, &schema.DropTable{Keyspace: table.Keyspace, Table: table.Name})
		if err != nil {
			c.t.Fatal(err)
		}
		c.schema = next
		for _, n := range c.nodes {
			if err := n.engine.DropTable(table.StorageID); err != nil {
				c.t.Fatal(err)
			}
		}
	}
}

// TestRequestsOfADroppedTable drops the table of a request before it and after every possible number of its messages, with a stable
// ring and with one that has changed, so that replicas refuse the coordinator's plan. Each request is answered once. One that begins
// after the drop gets this error, and nothing is sent.
func TestRequestsOfADroppedTable(t *testing.T) {
	for name, request := range droppedRequests {
		for _, moved := range []bool{false, true} {
			for n := range 10 {
				at := fmt.Sprintf("%s, %d messages before the drop, ring moved: %t", name, n-1, moved)
				c := newCluster(t, clusterOptions{datacenters: slices.Repeat([]string{"dc1"}, 5),
					replication: ring.Replication{Class: ring.Simple, Factor: 3}, owners: 5})
				if moved {
					for _, node := range c.nodes {
						if node.id != 4 {
							node.topology = c.ring(2, c.options.datacenters, 4)
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
					if answers != 1 || !errors.As(err, &unknown) || len(c.flight) > 0 {
						t.Errorf("%s: %d answers, %v; %d messages", at, answers, err, len(c.flight))
					}
					continue
				}
				c.deliver(n-1, nil)
				c.drop()
				c.node(4).topology = c.node(1).topology
				for range 100 {
					c.deliver(math.MaxInt, nil)
					c.clock.tick(100 * time.Millisecond)
				}
				if answers != 1 {
					t.Errorf("%s: %d answers, %v", at, answers, err)
				}
			}
		}
	}
}
