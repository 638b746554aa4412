package hints_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/hints"
	"cqld/ring"
	"cqld/row"
	"cqld/simulation/scenario"
	"cqld/storage"
)

// cluster is a cluster of a scenario with the steps of these tests.
type cluster struct{ *scenario.Cluster }

func newCluster(t *testing.T, o scenario.Options) *cluster { return &cluster{scenario.New(t, o)} }

// hintedCluster returns a cluster of four nodes; the first three are the replicas. Node 1 considers node 3 down.
func hintedCluster(t *testing.T, store func(*storage.Engine) hints.Store) *cluster {
	c := newCluster(t, scenario.Options{Datacenters: slices.Repeat([]string{"dc1"}, 4), Owners: 3,
		Replication: ring.Replication{Class: ring.Simple, Factor: 3}, Store: store})
	c.Node(1).Down[3] = true
	return c
}

// put writes a row of key k through node 1 and delivers all messages.
func (c *cluster) put(name string) {
	c.T.Helper()
	m := &row.Mutation{}
	m.Reset(c.Table.StorageID, row.NewPartitionKey([]byte("k")))
	scenario.AddRow(m, c.Table, name, "value", 1)
	acknowledged := false
	c.Node(1).Coordinator.Write(&coordinator.WriteRequest{Mutations: []*row.Mutation{m}, Consistency: ring.Quorum,
		Type:    coordinator.WriteSimple,
		Timeout: time.Second}, func(err error) {
		if acknowledged = true; err != nil {
			c.T.Error(err)
		}
	})
	if c.Deliver(math.MaxInt, nil); !acknowledged {
		c.T.Error("the write is not acknowledged")
	}
}

// has returns the content of key k on node id.
func (c *cluster) has(id ring.NodeID) string {
	c.T.Helper()
	page, err := c.Node(id).Engine.Read(nil, &row.ReadCommand{Table: c.Table.StorageID,
		Key:    row.NewPartitionKey([]byte("k")),
		Slices: []row.Slice{row.AllRows()}})
	if err != nil {
		c.T.Fatal(err)
	}
	return scenario.FormatPage(page)
}

// replay advances the time until hints are replayed, and delivers all messages.
func (c *cluster) replay() {
	for range 4 {
		c.Clock.Advance(5 * time.Second)
		c.Deliver(math.MaxInt, nil)
	}
}

// TestHintsOfAnEarlierProcessAreReplayed restarts the node that has hints. Their replica is up at the start, so the
// node does not see it come up.
func TestHintsOfAnEarlierProcessAreReplayed(t *testing.T) {
	c := hintedCluster(t, nil)
	c.put("a")
	c.Clock.Advance(50 * time.Millisecond)
	c.Node(1).Start()
	if n := c.Node(1).Hints.Pending(3); n != 1 {
		t.Fatalf("%d records of hints after a restart", n)
	}
	c.put("b")
	c.Clock.Advance(50 * time.Millisecond)
	if n := c.Node(1).Hints.Pending(3); n != 2 {
		t.Fatalf("%d records of hints after a restart and another hint, want 2", n)
	}
	c.Node(1).Down[3] = false
	c.Node(1).Start()
	if n := c.Node(1).Hints.Pending(3); n != 2 {
		t.Fatalf("%d records of hints after the second restart, want 2", n)
	}
	c.replay()
	if got := c.has(3); got != "k{a=value@1 b=value@1}" {
		t.Errorf("node 3 has %s after the replay", got)
	}
	if n := c.Node(1).Hints.Pending(3); n != 0 {
		t.Errorf("%d records of hints are left", n)
	}
}

// TestGracefulStopKeepsBufferedHints stops the node before the buffered hints are written.
func TestGracefulStopKeepsBufferedHints(t *testing.T) {
	c := hintedCluster(t, nil)
	c.put("a")
	c.Node(1).Hints.Close()
	c.Node(1).Down[3] = false
	c.Node(1).Start()
	c.replay()
	if got := c.has(3); got != "k{a=value@1}" {
		t.Errorf("node 3 has %s after the replay", got)
	}
}

// TestHintsOfAFormerReplicaGoToItsSuccessor replaces node 3, which leaves the ring, by node 4.
func TestHintsOfAFormerReplicaGoToItsSuccessor(t *testing.T) {
	c := hintedCluster(t, nil)
	c.put("a")
	c.Clock.Advance(50 * time.Millisecond)
	nodes := slices.DeleteFunc(slices.Clone(c.Topology(2, c.Options.Datacenters, 4).Nodes()),
		func(n *ring.Node) bool { return n.ID == 3 })
	for _, n := range c.Nodes {
		n.Ring = ring.NewTopology(2, nodes)
	}
	c.replay()
	if got := c.has(4); got != "k{a=value@1}" {
		t.Errorf("node 4 has %s after the replay", got)
	}
	if n := c.Node(1).Hints.Pending(3); n != 0 {
		t.Errorf("%d records of hints are left", n)
	}
}

// syncedStore records the local records that are written without a sync.
type syncedStore struct {
	hints.Store
	unsynced *[]string
}

func (s syncedStore) SetLocal(key, value []byte, sync bool) error {
	if !sync {
		prefix, _, _ := bytes.Cut(key, []byte("/"))
		*s.unsynced = append(*s.unsynced, string(prefix))
	}
	return s.Store.SetLocal(key, value, sync)
}

// TestHintsAndBatchesAreSynced shows that no hint or logged batch is reported as stored before it is on disk.
func TestHintsAndBatchesAreSynced(t *testing.T) {
	var unsynced []string
	c := hintedCluster(t, func(e *storage.Engine) hints.Store { return syncedStore{e, &unsynced} })
	c.put("a")
	c.Clock.Advance(50 * time.Millisecond)
	var batch []*row.Mutation
	for i := range 2 {
		m := &row.Mutation{}
		m.Reset(c.Table.StorageID, row.NewPartitionKey(fmt.Append(nil, "key", i)))
		scenario.AddRow(m, c.Table, "a", "value", 1)
		batch = append(batch, m)
	}
	held := 0
	c.Node(1).Batches.Write(&coordinator.WriteRequest{Mutations: batch, Consistency: ring.Quorum,
		Type: coordinator.WriteBatch, Timeout: time.Second}, func(err error) {
		for _, n := range c.Nodes {
			held += n.Batches.Held()
		}
		if err != nil {
			t.Error(err)
		}
	})
	c.Deliver(math.MaxInt, nil)
	if held == 0 || c.Node(1).Hints.Pending(3) == 0 {
		t.Errorf("%d batches and %d hints were stored: the run tests nothing", held, c.Node(1).Hints.Pending(3))
	}
	if len(unsynced) > 0 {
		t.Errorf("written without a sync: %v", unsynced)
	}
}

// TestHintsAreWrittenWhenTheBufferIsFull creates hints of many writes while no time passes. A record on disk has at
// most a full buffer and one hint more, so that replay can send it in one message; and the buffer does not grow beyond
// that.
func TestHintsAreWrittenWhenTheBufferIsFull(t *testing.T) {
	const full, writes = 1000, 200
	c := newCluster(t, scenario.Options{Datacenters: slices.Repeat([]string{"dc1"}, 4), Owners: 3,
		Replication: ring.Replication{Class: ring.Simple, Factor: 3}, HintLimits: hints.Limits{BufferBytes: full}})
	c.Node(1).Down[3] = true
	onDisk := func() (records, bytes int) {
		if err := c.Node(1).Engine.ScanLocal([]byte("hint/"), func(_, value []byte) error {
			records++
			bytes += len(value)
			if len(value) > full+100 {
				t.Errorf("a record of %d bytes", len(value))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return records, bytes
	}
	for i := range writes {
		c.put(fmt.Sprint("row", i))
	}
	_, early := onDisk()
	c.Clock.Advance(50 * time.Millisecond)
	records, all := onDisk()
	if all-early > full || records < all/(full+100) {
		t.Errorf("%d of %d bytes of hints waited in memory; %d records", all-early, all, records)
	}
	c.Node(1).Down[3] = false
	c.Node(1).Hints.NodeUp(3)
	for range records + 1 { // one record is written at a time
		c.Deliver(math.MaxInt, nil)
		c.Clock.Advance(10 * time.Millisecond)
	}
	if c.has(3) != c.has(2) {
		t.Errorf("node 3 has %s after the replay", c.has(3))
	}
}
