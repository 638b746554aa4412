package rebalance

import (
	"errors"
	"fmt"
	"testing"

	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// newRebuildWorld returns two members, both replicas of each range of table w.table. Node 1 has no rows.
func newRebuildWorld(t *testing.T) (w *moveWorld, keys []string) {
	w = newMoveWorld(t, ring.Operation{Phase: ring.Streaming}, 0)
	for _, change := range []schema.Change{
		&schema.CreateKeyspace{Keyspace: "r", Replication: ring.Replication{Class: ring.Simple, Factor: 2},
			DurableWrites: true},
		&schema.CreateTable{Keyspace: "r", Table: "t", ID: schema.UUID{2}, Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Text)}}},
	} {
		var err error
		if w.catalog, err = schema.Apply(w.catalog, change); err != nil {
			t.Fatal(err)
		}
	}
	w.table = w.catalog.Table("r", "t")
	for i := range 200 {
		keys = append(keys, fmt.Sprint("key", i))
	}
	topology := ring.NewTopology(9, []*ring.Node{
		{ID: 1, Datacenter: "dc1", State: ring.Normal, Tokens: []ring.Token{-2 << 60, 6 << 60}},
		{ID: 2, Datacenter: "dc1", State: ring.Normal, Tokens: []ring.Token{-6 << 60, 2 << 60}},
	})
	for _, n := range w.nodes {
		n.view.schema, n.view.topology = w.catalog, topology
	}
	w.write(2, keys...)
	return w, keys
}

// reopen starts the next process of node 1: running sessions are lost, and the disk persists.
func (w *moveWorld) reopen() {
	n := w.nodes[1]
	n.streams = NewStreams(StreamOptions{View: n.view, Local: n.local, Engine: n.engine, Transport: n, Clock: w,
		Run: here, Changed: ignoreChanges,
		Limits: Limits{BlockBytes: 1000, FileBytes: 4000}})
	w.moves = NewMovements(MovementOptions{View: n.view, Log: w, Streams: n.streams, Local: n.local, Hashes: n.hashes,
		Clock: w, Run: here})
}

// TestARebuildContinuesWithTheRangesThatAreNotDone cancels a rebuild, or kills its process, after some of its ranges.
// The next rebuild of the same name does not stream them again; one without a name does.
func TestARebuildContinuesWithTheRangesThatAreNotDone(t *testing.T) {
	for _, crash := range []bool{false, true} {
		w, keys := newRebuildWorld(t)
		completed, total := 0, 0
		var ended error
		o := RebuildOptions{Name: "7", Keyspace: "r", Progress: func(done, all int) {
			completed, total = done, all
			w.lose = done >= 3 // further requests are outstanding until the end
		}}
		cancel := w.moves.Rebuild(o, func(err error) { ended = err })
		if completed != 3 || total < 6 || ended != nil {
			t.Fatalf("%d of %d ranges, %v", completed, total, ended)
		}
		if crash {
			w.reopen()
		} else if cancel(); !errors.Is(ended, ErrCancelled) || len(w.nodes[1].streams.Sessions()) != 0 {
			t.Fatalf("cancelled: %v, %v", ended, w.nodes[1].streams.Sessions())
		}
		w.lose, w.blocks, o.Progress, ended = false, 0, nil, errors.New("not ended")
		w.moves.Rebuild(o, func(err error) { ended = err })
		resumed := w.blocks
		if ended != nil || len(w.missing(1, keys)) != 0 {
			t.Fatalf("the second rebuild: %v, %d partitions are missing", ended, len(w.missing(1, keys)))
		}
		w.blocks = 0
		w.moves.Rebuild(RebuildOptions{Keyspace: "r"}, func(err error) { ended = err })
		if ended != nil || resumed == 0 || w.blocks < resumed+3 {
			t.Errorf("the second rebuild requested %d blocks, and one of all ranges %d; %v", resumed, w.blocks, ended)
		}
		if err := w.nodes[1].engine.ScanLocal(streamKey("rebuild/"), func(key, _ []byte) error {
			return errors.New("left behind: " + string(key))
		}); err != nil {
			t.Error(err)
		}
	}
}

// TestARebuildThatFailsKeepsWhatItReceived runs a rebuild while one source is down.
func TestARebuildThatFailsKeepsWhatItReceived(t *testing.T) {
	w, keys := newRebuildWorld(t)
	var failure *RebuildError
	var ended error
	w.moves.Rebuild(RebuildOptions{Name: "7", Keyspace: "r", Datacenter: "dc2"}, func(err error) { ended = err })
	if !errors.As(ended, &failure) || failure.Failed != failure.Ranges || !errors.Is(ended, errNoSource) {
		t.Errorf("without a source: %v", ended)
	}
	w.moves.Rebuild(RebuildOptions{Name: "7", Keyspace: "r", Datacenter: "dc1"}, func(err error) { ended = err })
	if ended != nil || len(w.missing(1, keys)) != 0 {
		t.Errorf("%v, %d partitions are missing", ended, len(w.missing(1, keys)))
	}
	if err := w.moves.ForgetRebuild("7"); err != nil {
		t.Error(err)
	}
}

// TestARebuildStreamsTheStatesOfEachKeyspace rebuilds two keyspaces with the same ranges, and one of them. Two
// concurrent sessions with the same id would fail.
func TestARebuildStreamsTheStatesOfEachKeyspace(t *testing.T) {
	w, _ := newRebuildWorld(t)
	w.catalog = withKeyspace(t, w.catalog, "s", 3, ring.Replication{Class: ring.Simple, Factor: 2})
	for _, n := range w.nodes {
		n.view.schema = w.catalog
	}
	for _, keyspace := range []string{"", "s"} {
		count, tables, states := map[string]int{}, map[schema.StorageID]bool{}, map[string]bool{}
		for _, p := range w.moves.rebuildSessions(RebuildOptions{Keyspace: keyspace}) {
			tables[p.Table] = true
			if count[p.ID]++; count[p.ID] > 1 {
				t.Errorf("session %s occurs %d times", p.ID, count[p.ID])
			}
			if (p.Table == schema.PaxosTable) != (len(p.Keyspaces) == 1) {
				t.Errorf("session %s of table %d is of the states of keyspaces %q", p.ID, p.Table, p.Keyspaces)
			}
			for _, name := range p.Keyspaces {
				states[name] = true
			}
		}
		if r, s := w.catalog.Table("r", "t").StorageID,
			w.catalog.Table("s", "s").StorageID; tables[r] != (keyspace == "") || !tables[s] {
			t.Errorf("rebuild of %q streams table r.t: %v, s.s: %v", keyspace, tables[r], tables[s])
		}
		if states["r"] != (keyspace == "") || !states["s"] {
			t.Errorf("rebuild of %q streams the states of keyspaces %v", keyspace, states)
		}
	}
}

// TestACancelledRebuildStartsNoSession cancels a rebuild whose sessions run, and one whose sessions are about to start.
func TestACancelledRebuildStartsNoSession(t *testing.T) {
	w, _ := newRebuildWorld(t)
	var ended error
	completed := 0
	w.lose = true // sessions wait for blocks
	cancel := w.moves.Rebuild(RebuildOptions{Keyspace: "r", Progress: func(done, _ int) { completed = done }},
		func(err error) { ended = err })
	cancel()
	if !errors.Is(ended, ErrCancelled) || completed != 0 || len(w.nodes[1].streams.Sessions()) != 0 {
		t.Errorf("%d sessions are completed, %v", completed, ended)
	}
	// A cancellation before the effects of the first step are performed.
	v := &rebuild{m: w.moves, o: RebuildOptions{}, done: func(err error) { ended = err }}
	w.lose, w.blocks, ended = false, 0, nil
	v.mu.machine = newRebuildMachine(w.moves.rebuildSessions(RebuildOptions{Keyspace: "r"}))
	effects := v.step(&rebuildEvent{kind: rebuildBegun})
	v.deliver(&rebuildEvent{kind: rebuildCancelled})
	for _, e := range effects {
		v.perform(&e)
	}
	if !errors.Is(ended, ErrCancelled) || w.blocks != 0 {
		t.Errorf("%d blocks are streamed after the cancellation, %v", w.blocks, ended)
	}
}
