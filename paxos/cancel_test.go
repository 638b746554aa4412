package paxos_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
	"cqld/simulation/scenario"
)

// canceling is a ring of four nodes whose clients cancel conditional changes of one partition.
type canceling struct {
	*scenario.Cluster
	key row.PartitionKey
}

// asked is a conditional change and its answer.
type asked struct {
	cancel   *env.Cancel
	answered bool
	err      error
}

func newCanceling(t *testing.T) *canceling {
	return &canceling{
		Cluster: scenario.New(t, scenario.Options{
			Datacenters: slices.Repeat([]string{"dc1"}, 4),
			Owners:      4,
			Replication: ring.Replication{Class: ring.Simple, Factor: 4},
		}),
		key: row.NewPartitionKey([]byte("k1")),
	}
}

// change sets a row, whatever it contains, in memory of a few bytes.
func (c *canceling) change(at ring.NodeID, clustering string, value []byte, memory uint32) *asked {
	x := &asked{cancel: new(env.Cancel)}
	c.Node(at).Proposer.CAS(&paxos.CASRequest{
		Command: &row.ReadCommand{
			Table:  c.Table.StorageID,
			Key:    c.key,
			Slices: []row.Slice{row.ExactRow([]byte(clustering))},
			Now:    c.Clock.Now().Unix(),
			Limits: row.Limits{Bytes: memory},
		},
		Serial:      ring.Serial,
		Consistency: ring.Quorum,
		Contention:  time.Second,
		Timeout:     2 * time.Second,
		Cancel:      x.cancel,
		Update: func(_ []byte, timestamp int64) (*row.Mutation, bool, error) {
			m := new(row.Mutation)
			m.Reset(c.Table.StorageID, c.key)
			scenario.AddRow(m, c.Table, clustering, string(value), timestamp)
			return m, true, nil
		},
	}, func(_ bool, _ []byte, err error) {
		if x.answered {
			c.T.Error("two answers")
		}
		x.answered, x.err = true, err
	})
	return x
}

// settle delivers all messages, and those that follow within a few milliseconds.
func (c *canceling) settle() {
	for range 10 {
		c.Deliver(math.MaxInt, nil)
		c.Clock.Advance(time.Millisecond)
	}
}

// TestCanceledRequestReturnsItsTurn cancels a request that waits for the partition's turn. Requests that come after it
// are executed: the turn that is granted nevertheless is returned, and does not begin the round that has ended.
func TestCanceledRequestReturnsItsTurn(t *testing.T) {
	c := newCanceling(t)
	first := c.change(2, "a", []byte("x"), 0)
	c.Deliver(6, nil) // node 2 has promises, and proposes
	second := c.change(3, "a", []byte("y"), 0)
	for range 30 { // node 3 is outvoted, and takes turns from now on
		c.settle()
	}
	if !first.answered || !second.answered || first.err != nil || second.err != nil {
		t.Fatalf("changes in turn: %+v, %+v", first, second)
	}
	if c.Node(3).Proposer.Stats().Turns == 0 {
		t.Fatal("node 3 had no turn")
	}
	canceled := c.change(3, "a", []byte("z"), 0)
	if n := len(c.Flight); n != 1 || c.Flight[0].What != "turn" {
		t.Fatalf("%d messages instead of a request for the turn", n)
	}
	canceled.cancel.Cancel()
	if !errors.Is(canceled.err, env.ErrCanceled) {
		t.Fatalf("canceled: %v", canceled.err)
	}
	c.Deliver(math.MaxInt, nil) // the turn is granted
	for _, at := range []ring.NodeID{3, 4} {
		after := c.change(at, "a", []byte("z"), 0)
		c.settle()
		if !after.answered || after.err != nil {
			t.Errorf("the next request at node %d: %+v", at, after)
		}
	}
}

// TestCanceledHalfOfARoundIsNotExecuted divides a round whose rows are too large for one read. The members of its first
// half were canceled, so no attempt is made for them.
func TestCanceledHalfOfARoundIsNotExecuted(t *testing.T) {
	c := newCanceling(t)
	large := bytes.Repeat([]byte("x"), 5000)
	for _, clustering := range []string{"c", "d"} {
		c.change(1, clustering, large, 0)
		c.settle()
	}
	before := c.Node(1).Proposer.Stats().Rounds
	first := c.change(1, "a", []byte("x"), 0)
	members := []*asked{c.change(1, "a", nil, 200), c.change(1, "b", nil, 200), c.change(1, "c", nil, 200),
		c.change(1, "d", nil, 200)}
	for !first.answered {
		c.Deliver(1, nil)
	}
	c.Clock.Advance(0) // the round of the four begins
	members[0].cancel.Cancel()
	members[1].cancel.Cancel()
	c.settle()
	var memory *coordinator.NeedsMemory
	for i, m := range members {
		canceled := i < 2
		if !m.answered || errors.Is(m.err, env.ErrCanceled) != canceled || errors.As(m.err, &memory) == canceled {
			t.Errorf("member %d: %+v", i, m)
		}
	}
	if n := c.Node(1).Proposer.Stats().Rounds - before; n != 3 {
		t.Errorf("%d rounds instead of three: the first one, and one for each of the last two members", n)
	}
}
