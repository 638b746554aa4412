package rebalance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
	"cqld/internal/testclock"
	"cqld/messaging"
	"cqld/repair"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/types"
)

// dropWorld contains a node, 1, with data of the whole ring, and the answers of the others.
type dropWorld struct {
	t        *testing.T
	view     *view
	engine   *storage.Engine
	local    *replica.Local
	drops    *Drops
	table    *schema.Table
	unclean  uint64
	epoch    uint64
	former   *FormerData
	majority bool // a majority confirms the metadata
	cleaned  []uint64
	settled  []string
	regained []string
	gained   []GainedData
	answers  map[ring.NodeID]byte // by node; none means that it does not answer
	asked    int
	before   func() // called while the replicas are queried
	timers   []func()
	confirm  func(done func()) // nil confirms at once, if majority
}

func (w *dropWorld) StartConfirm(done func()) {
	if w.confirm != nil {
		w.confirm(done)
		return
	}
	if w.majority {
		done()
	}
}

func (w *dropWorld) StartCleaned(epoch uint64, done func(error)) {
	w.cleaned, w.unclean = append(w.cleaned, epoch), 0
	done(nil)
}

func (w *dropWorld) StartSettled(keyspace string, _ uint64, done func(error)) {
	w.settled, w.former = append(w.settled, keyspace), nil
	done(nil)
}

func (w *dropWorld) StartRegained(keyspace string, _ uint64, done func(error)) {
	w.regained, w.gained = append(w.regained, keyspace), nil
	done(nil)
}

func (w *dropWorld) Handle(messaging.Service)                 {}
func (w *dropWorld) Run(_ int, f func()) error                { f(); return nil }
func (w *dropWorld) Send(ring.NodeID, messaging.Verb, []byte) {}
func (w *dropWorld) Now() time.Time                           { return time.Unix(1_700_000_000, 0) }
func (w *dropWorld) Monotonic() time.Duration                 { return 0 }
func (w *dropWorld) After(_ time.Duration, f func()) (_ env.Timer) {
	w.timers = append(w.timers, f)
	return stillTimer{}
}

type stillTimer struct{}

func (stillTimer) Stop() bool { return true }

func (w *dropWorld) Request(to ring.NodeID, _ messaging.Verb, payload []byte, _ time.Duration, reply messaging.Reply) {
	w.asked++
	if w.before != nil {
		w.before()
	}
	_, of, err := decodeHolds(payload)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, ok := w.answers[to]
	if !ok {
		reply(nil, messaging.ErrTimeout)
		return
	}
	reply(slices.Repeat([]byte{answer}, len(of)), nil)
}

// newDropWorld returns four nodes with a token each, and a keyspace with factor 2: node 1 holds half of the ring.
func newDropWorld(t *testing.T) *dropWorld {
	w := &dropWorld{t: t, unclean: 7, epoch: 8, majority: true, answers: map[ring.NodeID]byte{2: 1, 3: 1, 4: 1}}
	text := types.Native(types.Text)
	catalog := schema.Initial()
	for _, change := range []schema.Change{
		&schema.CreateKeyspace{Keyspace: "k", Replication: ring.Replication{Class: ring.Simple, Factor: 2},
			DurableWrites: true},
		&schema.CreateTable{Keyspace: "k", Table: "t", ID: schema.UUID{1},
			Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: text}},
			Options: schema.DefaultOptions()},
	} {
		var err error
		if catalog, err = schema.Apply(catalog, change); err != nil {
			t.Fatal(err)
		}
	}
	w.table = catalog.Table("k", "t")
	w.view = &view{self: 1, schema: catalog, topology: ring.NewTopology(8, fourNodes())}
	var err error
	if w.engine, err = storage.Open(storage.Options{Dir: "data", FS: vfs.NewMem(), Clock: &testclock.Clock{},
		Inline: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.engine.Close() })
	w.local = replica.NewLocal(w.engine, w.view, nil)
	w.local.SetPaxos(testStates{})
	for i := range 64 {
		w.write(fmt.Sprint("key", i))
	}
	w.drops = NewDrops(DropsOptions{View: w.view, Metadata: w, Local: w.local, Changed: ignoreChanges,
		Engine: w.engine, Transport: w, Clock: w,
		Epoch: func() uint64 { return w.epoch }, Unclean: func() uint64 { return w.unclean },
		Former: func(string) *FormerData { return w.former }, Run: func(f func()) { f() }})
	return w
}

func fourNodes() (nodes []*ring.Node) {
	for i, token := range []ring.Token{-6 << 60, -2 << 60, 2 << 60, 6 << 60} {
		nodes = append(nodes, &ring.Node{ID: ring.NodeID(i + 1), Datacenter: "a", State: ring.Normal,
			Tokens: []ring.Token{token}})
	}
	return nodes
}

func (w *dropWorld) write(key string) (err error) {
	m := new(row.Mutation)
	m.Reset(w.table.StorageID, row.NewPartitionKey([]byte(key)))
	r := row.NewRow()
	r.Liveness.Timestamp = 1
	m.AddRow(r)
	w.local.Apply(w.view.topology.Epoch(), []*row.Mutation{m}, 0, func(e error) { err = e })
	return err
}

// has counts the keys in storage: those in ranges that the node holds, and others.
func (w *dropWorld) has() (held, others int) {
	placement := w.view.topology.Placement(w.table.Replication)
	for i := range 64 {
		key := row.NewPartitionKey([]byte(fmt.Sprint("key", i)))
		empty, err := w.engine.EmptyRange(w.table.StorageID, ring.Range{Start: key.Token - 1, End: key.Token})
		switch {
		case err != nil:
			w.t.Fatal(err)
		case empty:
		case slices.Contains(placement.Replicas(key.Token).Natural, 1):
			held++
		default:
			others++
		}
	}
	return held, others
}

// TestARangeIsDroppedByADecision that is confirmed, while half of the range's replicas are up.
func TestARangeIsDroppedByADecision(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*dropWorld)
		dropped bool
	}{
		{"all answer", func(*dropWorld) {}, true},
		{"half of the replicas answer", func(w *dropWorld) { delete(w.answers, 3) }, true},
		{"none of a range's replicas answers", func(w *dropWorld) {
			delete(w.answers, 3)
			delete(w.answers,
				4)
			delete(w.answers, 2)
		}, false},
		{"the replicas do not hold it", func(w *dropWorld) { w.answers = map[ring.NodeID]byte{2: 0, 3: 0, 4: 0} },
			false},
		{"no majority confirms the metadata", func(w *dropWorld) { w.majority = false }, false},
		{"nothing was lost", func(w *dropWorld) { w.unclean = 0 }, false},
		{"the replication was changed, and the replicas could not get it from each other", func(w *dropWorld) {
			w.former = &FormerData{Epoch: 8, Since: 5}
		}, false},
		{"the replication was changed, and the replicas have not been repaired since", func(w *dropWorld) {
			w.former, w.answers = &FormerData{Epoch: 8, Since: 5, Reachable: true},
				map[ring.NodeID]byte{2: 0, 3: 0, 4: 0}
		}, false},
		{"the replication was changed, and the replicas were repaired since", func(w *dropWorld) {
			w.former = &FormerData{Epoch: 8, Since: 5, Reachable: true}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newDropWorld(t)
			all, _ := w.has()
			c.change(w)
			w.drops.Reconcile()
			held, others := w.has()
			if held != all || (others == 0) != c.dropped {
				t.Errorf("%d of %d rows held are left, and %d of other ranges", held, all, others)
			}
			if stats := w.drops.Stats(); (stats.Ranges > 0) != c.dropped || stats.Bytes < 0 {
				t.Errorf("%d ranges and %d bytes are counted", stats.Ranges, stats.Bytes)
			}
			if c.dropped && w.unclean != 0 {
				t.Error("the metadata log does not hear of it")
			}
		})
	}
}

// TestANodeThatIsRemovedDropsNothing checks that a node that others take for dead keeps its ranges until its removal
// has ended: if that is aborted, the node serves them again.
func TestANodeThatIsRemovedDropsNothing(t *testing.T) {
	w := newDropWorld(t)
	before, _ := w.has()
	nodes := fourNodes()
	nodes[0].State = ring.Leaving
	w.view.topology = ring.NewMovingTopology(8, 8, nodes, []*ring.Operation{{ID: 7, Kind: ring.Remove, Node: 1,
		Phase: ring.Switching, Switched: 8, Gaining: []ring.NodeID{2, 3, 4}, Streamed: []ring.NodeID{2, 3, 4}}})
	w.drops.Cleanup("", nil, nil, func(error) {})
	w.view.topology = ring.NewTopology(9, fourNodes())
	if after, _ := w.has(); before == 0 || after != before {
		t.Errorf("%d of %d rows are left after the removal was aborted", after, before)
	}
}

// TestADropNeedsNoDeadNode shows that if one of a range's replicas is dead, the others suffice, unless it was the only
// one.
func TestADropNeedsNoDeadNode(t *testing.T) {
	for replicas := 1; replicas <= 7; replicas++ {
		h := holding{replicas: make([]ring.NodeID, replicas), yes: replicas - 1}
		if h.enough() != (replicas > 1) {
			t.Errorf("%d of %d replicas answer, enough: %v", h.yes, replicas, h.enough())
		}
	}
}

// TestADropIsTriedAgain until the replicas are up; data of ranges that the node gained again are not dropped.
func TestADropIsTriedAgain(t *testing.T) {
	w := newDropWorld(t)
	w.answers = nil
	w.drops.Reconcile()
	if len(w.timers) != 1 || w.unclean == 0 {
		t.Fatalf("%d timers", len(w.timers))
	}
	w.answers = map[ring.NodeID]byte{2: 1, 3: 1, 4: 1}
	w.before = func() { // the ring changes while the replicas are queried: the node holds all of it
		nodes := fourNodes()[:1]
		w.view.topology, w.epoch = ring.NewTopology(9, nodes), 9
	}
	w.timers[0]()
	if held, _ := w.has(); held != 64 {
		t.Errorf("%d of 64 rows are left of a range that the node gained in the meantime", held)
	}
}

// TestNothingIsWrittenToWhatIsDropped, so that no acknowledged write can be dropped.
func TestNothingIsWrittenToWhatIsDropped(t *testing.T) {
	w := newDropWorld(t)
	items := w.drops.list()
	w.local.Fence(fenced(items))
	refused := 0
	for i := range 64 {
		key := row.NewPartitionKey([]byte(fmt.Sprint("key", i)))
		err := w.write(string(key.Bytes))
		off := slices.ContainsFunc(items, func(x dropItem) bool {
			return x.keyspace == "k" && x.tokens.Overlaps(ring.Range{Start: key.Token - 1, End: key.Token})
		})
		if off != (err != nil) || off != w.local.Fenced(w.table.StorageID,
			ring.Range{Start: key.Token - 1, End: key.Token}) {
			t.Errorf("key %s, fenced off: %v: %v", key.Bytes, off, err)
		}
		if off {
			refused++
		}
	}
	w.local.Unfence()
	if err := w.write("key1"); refused < 10 || refused > 54 || err != nil {
		t.Errorf("%d of 64 keys are fenced off; after it: %v", refused, err)
	}
}

// TestAnOperatorHearsWhatStays checks the error of a cleanup that does not drop all ranges.
func TestAnOperatorHearsWhatStays(t *testing.T) {
	w := newDropWorld(t)
	w.unclean, w.former = 0, &FormerData{Epoch: 8, Since: 5}
	err := errors.New("no answer")
	w.drops.Cleanup("", nil, nil, func(e error) { err = e })
	if err == nil || !strings.Contains(err.Error(), "keyspace k") ||
		!strings.Contains(err.Error(), "replication was changed") {
		t.Errorf("an operator hears %v", err)
	}
	w.former = nil
	w.drops.Cleanup("", nil, nil, func(e error) { err = e })
	if _, others := w.has(); err != nil || others != 0 {
		t.Errorf("%v, %d rows are left", err, others)
	}
}

// TestPaxosStatesAreDroppedByKeyspace checks that a node drops the states of the partitions that it lost, and keeps
// those of another keyspace whose same ranges it still holds. The states are dropped even if no rows are left.
func TestPaxosStatesAreDroppedByKeyspace(t *testing.T) {
	for _, empty := range []bool{false, true} {
		w := newDropWorld(t)
		w.view.schema = withKeyspace(t, w.view.schema, "everywhere", 2, ring.Replication{Class: ring.Simple, Factor: 4})
		everywhere := w.view.schema.Table("everywhere", "everywhere")
		for i := range 64 {
			for _, table := range []*schema.Table{w.table, everywhere} {
				if err := w.engine.Apply([]*row.Mutation{testState(table, fmt.Sprint("key", i))}, true,
					func(error) {}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if empty {
			if err := w.engine.DropRange(w.table.StorageID, ring.FullRange()); err != nil {
				t.Fatal(err)
			}
		}
		w.drops.Reconcile()
		if len(w.cleaned) != 1 {
			t.Fatalf("cleaned %v", w.cleaned)
		}
		placement := w.view.topology.Placement(w.table.Replication)
		for i := range 64 {
			key := fmt.Sprint("key", i)
			held := slices.Contains(placement.Replicas(row.NewPartitionKey([]byte(key)).Token).Natural, 1)
			if hasState(t, w.engine, w.table, key) != held {
				t.Errorf("partition %s: held %v, has a state %v", key, held, !held)
			}
			if !hasState(t, w.engine, everywhere, key) {
				t.Errorf("partition %s has no state in the keyspace whose range the node holds", key)
			}
		}
	}
}

// TestACleanupOfOneKeyspace, or of some of its tables, does not affect others; after a change of the ring, it covers
// all tables.
func TestACleanupOfOneKeyspace(t *testing.T) {
	for _, test := range []struct {
		unclean  uint64
		keyspace string
		tables   []schema.StorageID
		gone     bool
	}{
		{0, "other", nil, false}, {0, "k", nil, true}, {0, "", nil, true}, {7, "other", nil, true},
		{0, "k", []schema.StorageID{1 << 20}, false},
	} {
		w := newDropWorld(t)
		w.unclean = test.unclean
		err := errors.New("no answer")
		w.drops.Cleanup(test.keyspace, test.tables, nil, func(e error) { err = e })
		held, others := w.has()
		if err != nil || held == 0 || (others == 0) != test.gone {
			t.Errorf("%+v: %v, %d and %d rows are left", test, err, held, others)
		}
	}
	w := newDropWorld(t)
	w.unclean = 0
	w.drops.Cleanup("k", []schema.StorageID{w.table.StorageID}, nil, func(error) {})
	if _, others := w.has(); others != 0 {
		t.Errorf("%d rows of the table are left", others)
	}
	w.former = &FormerData{Epoch: 8, Since: 5, Reachable: true}
	w.drops.Cleanup("k", []schema.StorageID{w.table.StorageID}, nil, func(error) {})
	if len(w.settled) != 0 {
		t.Errorf("settled %q by a cleanup of one table", w.settled)
	}
}

// TestANodeSaysThatItWasRepaired when all its ranges of a keyspace were repaired after the change of the replication,
// and not if they were before, or only in part.
func TestANodeSaysThatItWasRepaired(t *testing.T) {
	w := newDropWorld(t)
	repaired, err := repair.OpenHistory(w.engine, &testclock.Clock{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.drops = NewDrops(DropsOptions{View: w.view, Metadata: w, Local: w.local, Changed: ignoreChanges,
		Engine: w.engine, Transport: w, Clock: w,
		Epoch: func() uint64 { return w.epoch }, Unclean: func() uint64 { return 0 },
		Former: func(string) *FormerData { return nil },
		Gained: func() []GainedData { return w.gained }, History: repaired, Run: func(f func()) { f() }})
	look := func() {
		timers := w.timers
		w.timers = nil
		for _, f := range timers {
			f()
		}
	}
	if err := repaired.Add(w.table.StorageID, ring.FullRange(), 40); err != nil || len(w.timers) != 0 {
		t.Fatalf("%v, %d timers, although nothing was gained", err, len(w.timers))
	}
	w.gained = []GainedData{{Keyspace: "k", Changed: 9, Since: 50}}
	w.drops.Reconcile()
	look()
	held := heldBy(w.view.topology.Placement(w.table.Replication), 1)
	for i, tokens := range held {
		if len(w.regained) != 0 {
			t.Fatalf("it says so when %d of %d ranges were repaired", i, len(held))
		}
		if err := repaired.Add(w.table.StorageID, tokens, 50); err != nil {
			t.Fatal(err)
		}
		if len(w.timers) != 1 {
			t.Fatalf("%d looks are to come", len(w.timers))
		}
		look()
	}
	if !slices.Equal(w.regained, []string{"k"}) {
		t.Errorf("it says so of %q", w.regained)
	}
}

// TestACancelledCleanupDropsNothing cancels a cleanup while its decision waits for a confirmation of the metadata.
func TestACancelledCleanupDropsNothing(t *testing.T) {
	w := newDropWorld(t)
	w.unclean = 0
	var confirmed func()
	w.confirm = func(done func()) { confirmed = done }
	err := errors.New("no answer")
	cancel := w.drops.Cleanup("", nil, nil, func(e error) { err = e })
	cancel()
	cancel()
	if !errors.Is(err, ErrCancelled) {
		t.Errorf("the operator hears %v", err)
	}
	confirmed()
	if _, others := w.has(); others == 0 {
		t.Error("a cancelled cleanup dropped data")
	}
	w.confirm = nil
	last, all := -1, 0
	w.drops.Cleanup("", nil, func(done, of int) { last, all = done, of }, func(e error) { err = e })
	if _, others := w.has(); err != nil || others != 0 || last != all-1 {
		t.Errorf("the next cleanup: %v, %d rows are left, %d of %d ranges reported", err, others, last, all)
	}
}
