package coordinator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/coordinator/repair"
	"cqld/ring"
	"cqld/row"
)

// autoRepairOf is a cluster of three whose first node repairs by itself.
func autoRepairOf(t *testing.T, limits coordinator.Limits) (*repairStory, *repair.Auto) {
	t.Helper()
	s := &repairStory{scenario: scenario{t: t}}
	s.c = newCluster(t, clusterOptions{datacenters: []string{"dc1", "dc1", "dc1"}, owners: 3, limits: limits,
		replication: ring.Replication{Class: ring.Simple, Factor: 3}})
	s.attach(0)
	return s, s.auto(0)
}

// auto is a node's background repair, as an earlier process left it.
func (s *repairStory) auto(i int) *repair.Auto {
	n := s.c.nodes[i]
	a := repair.NewAuto(repair.AutoOptions{
		Repairer: repair.NewRepairer(repair.Options{Coordinator: n.coord, View: n, Clock: lifeClock{s.c.clock, n.life}, Peers: s.peers[i], Store: n.engine,
			Limits: repair.Limits{Timeout: 2 * time.Second}}),
		Store: n.engine, Interval: time.Hour, Delay: time.Second, RetryAfter: 10 * time.Second,
		Note: func(message string, err error) { s.c.printf("note: %s, %v", message, err) },
	})
	n.coord.OnHintLost(a.Dirty)
	return a
}

// pass lets time pass and everything arrive.
func (s *repairStory) pass(d time.Duration) {
	for range d / (100 * time.Millisecond) {
		s.c.deliver(100_000, nil)
		s.c.clock.tick(100 * time.Millisecond)
	}
}

func (s *repairStory) put(node int, key string) {
	m := &row.Mutation{}
	m.Reset(s.c.table.StorageID, row.NewPartitionKey([]byte(key)))
	addRow(m, s.c.table, "a", "value", 7)
	s.c.nodes[node].engine.Apply([]*row.Mutation{m}, true, func(err error) {
		if err != nil {
			s.t.Error(err)
		}
	})
}

func (s *repairStory) equal() bool {
	s.c.take()
	s.roots(nil)
	return strings.HasPrefix(s.c.take(), "equal true")
}

func TestAutoRepairRepairsWhatIsFirstItsOwn(t *testing.T) {
	s, a := autoRepairOf(t, coordinator.Limits{})
	b, c := s.auto(1), s.auto(2)
	for i := range 30 {
		s.put(i%3, fmt.Sprint("key", i))
	}
	for _, x := range []*repair.Auto{a, b, c} {
		x.Start()
	}
	s.pass(500 * time.Millisecond)
	if s.equal() {
		t.Error("the first repair did not wait")
	}
	s.pass(20 * time.Second)
	if !s.equal() {
		t.Error("the replicas differ after each node has repaired its ranges")
	}
	// Nothing is due until the interval has passed; a process that starts anew knows that.
	for _, x := range []*repair.Auto{a, b, c} {
		x.Close()
	}
	a, b, c = s.auto(0), s.auto(1), s.auto(2)
	for _, x := range []*repair.Auto{a, b, c} {
		x.Start()
	}
	clear(s.counts)
	s.put(0, "late")
	s.pass(10 * time.Minute)
	if s.equal() || s.counts["hash"] > 0 {
		t.Errorf("repaired again too early: %d steps", s.counts["hash"])
	}
	s.pass(51 * time.Minute)
	if !s.equal() {
		t.Error("not repaired again after the interval")
	}
	for _, x := range []*repair.Auto{a, b, c} {
		x.Close()
	}
}

// TestLostHintsAreRepaired keeps no more than a few bytes of hints for a node that is down: what is lost
// is repaired when it is back, by the node that lost it, whoever's range it is.
func TestLostHintsAreRepaired(t *testing.T) {
	s, a := autoRepairOf(t, coordinator.Limits{HintBytesPerNode: 10})
	defer func() { a.Close() }()
	a.Start()
	s.pass(30 * time.Second) // of empty tables
	for _, n := range s.c.nodes {
		n.down[3] = n.id != 3
	}
	s.c.away[3] = true
	for i := range 20 {
		m := &row.Mutation{}
		m.Reset(s.c.table.StorageID, row.NewPartitionKey(fmt.Append(nil, "key", i)))
		addRow(m, s.c.table, "a", "value", 7)
		s.c.nodes[0].coord.Write(&coordinator.WriteRequest{Mutations: []*row.Mutation{m}, Consistency: ring.Quorum,
			Type: coordinator.WriteSimple, Timeout: time.Second}, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	s.pass(20 * time.Second)
	if got := a.DirtyTables(); len(got) != 1 || got[0] != s.c.table.StorageID {
		t.Fatalf("dirty: %v", got)
	}
	if !strings.Contains(s.c.take(), "nodes [3] are down") {
		t.Error("a repair that cannot be made was not told of")
	}
	a.Close()
	a = s.auto(0) // the process starts anew
	a.Start()
	s.c.away[3] = false
	for _, n := range s.c.nodes {
		n.down[3] = false
	}
	a.Look()
	s.pass(20 * time.Second)
	if len(a.DirtyTables()) > 0 || !s.equal() {
		t.Errorf("dirty: %v, equal: %v", a.DirtyTables(), s.equal())
	}
}
