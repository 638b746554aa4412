package repair_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"cqld/hints"
	"cqld/messaging"
	"cqld/paxos"
	"cqld/paxos/ballot"
	"cqld/repair"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// change executes a conditional change whose condition holds, and waits for it.
func (w *world) change(n *node, key, value string) {
	w.t.Helper()
	outcome := errors.New("no answer")
	cmd := &row.ReadCommand{Table: w.table.StorageID, Key: row.NewPartitionKey([]byte(key)),
		Slices: []row.Slice{row.AllRows()}}
	n.proposer.CAS(&paxos.CASRequest{Command: cmd, Serial: ring.Serial, Consistency: ring.Quorum,
		Contention: time.Second, Timeout: time.Second,
		Update: func(_ []byte, ts int64) (*row.Mutation, bool, error) {
			return w.insert(key, "c", value, ts), true,
				nil
		},
	}, func(_ bool, _ []byte, err error) { outcome = err })
	w.pass(2 * time.Second)
	if outcome != nil {
		w.t.Fatal(outcome)
	}
}

// states returns the number of partitions with Paxos state on each node.
func (w *world) states() (out []int) {
	paxos := schema.Initial().Table("system", "paxos").StorageID
	for _, n := range w.nodes {
		page, err := n.engine.Read(nil, &row.ReadCommand{Table: paxos, Range: row.KeyRange{Tokens: ring.FullRange()},
			Slices: []row.Slice{row.AllRows()}})
		if err != nil {
			w.t.Fatal(err)
		}
		count := 0
		var r row.PageReader
		var x row.Row
		for r.Reset(page); r.NextPartition(); {
			for r.NextRow(&x) {
				if len(x.Cells) > 0 {
					count++
				}
			}
		}
		out = append(out, count)
	}
	return out
}

// purger returns a Repairer of the first node; the nodes in hear receive the low bound.
func (w *world) purger(hear ...*node) (*repair.Repairer, *int) {
	raised := new(int)
	return repair.NewRepairer(repair.Options{Coordinator: w.nodes[0].coord, View: w.nodes[0], Clock: w.clock,
		Peers: w.nodes[0].peers, Paxos: w.nodes[0].purge, Proposer: w.nodes[0].proposer,
		Limits: repair.Limits{Timeout: 2 * time.Second, Margin: time.Millisecond, PaxosMargin: time.Second,
			PaxosEvery: time.Hour},
		RaiseFloor: func(_ schema.StorageID, micros int64, done func(error)) {
			*raised++
			for _, n := range hear {
				n.floor = micros
			}
			done(nil)
		}}), raised
}

func (w *world) run(r *repair.Repairer) (report repair.Report) {
	w.t.Helper()
	return w.runIn(r, repair.Scope{})
}

func (w *world) runIn(r *repair.Repairer, scope repair.Scope) (report repair.Report) {
	w.t.Helper()
	outcome := errors.New("no answer")
	job := repair.Job{Table: w.table.StorageID, Range: ring.FullRange(), Scope: scope}
	r.Start(job, nil, func(got repair.Report, err error) { report, outcome = got, err })
	w.pass(120 * time.Second)
	if outcome != nil {
		w.t.Fatal(outcome)
	}
	return report
}

// paxosWorld returns ten partitions that were changed conditionally, one of them not at the last node, which only
// accepted a proposal for it.
func paxosWorld(t *testing.T) *world {
	w := newWorld(t, 3, 3, "BLOCKING", 0, hints.Limits{})
	for i := range 9 {
		w.change(w.nodes[i%3], string(rune('a'+i)), "v")
	}
	m := w.insert("k", "c", "lost?", w.clock.Now().UnixMicro())
	p := &ballot.Proposal{Ballot: ballot.Ballot{Micros: w.clock.Now().UnixMicro(), Node: 2}, Table: m.Table, Key: m.Key,
		Update: row.AppendMutation(nil, m)}
	p.Origin = p.Ballot
	w.nodes[2].acceptor.Accept(1, p, func(refused ballot.Ballot, err error) {
		if err != nil || refused.Present() {
			t.Fatal(refused, err)
		}
	})
	w.pass(10 * time.Second)
	return w
}

// TestRepairPurgesPaxosState purges old state, after it has settled undecided proposals.
func TestRepairPurgesPaxosState(t *testing.T) {
	w := paxosWorld(t)
	r, raised := w.purger(w.nodes...)
	report := w.run(r)
	if got := w.states(); *raised != 1 || report.Forgotten != 27 || got[0] != 1 || got[1] != 1 || got[2] != 1 {
		t.Errorf("raised %d times, forgotten %d, states left %v, want the states of k, whose votes are new", *raised,
			report.Forgotten, got)
	}
	if equal, rows := w.roots(); !equal || rows != 10 {
		t.Errorf("replicas equal %v, with %d rows, want 10", equal, rows)
	}
	tombstones := func() {
		t.Helper()
		if before, margin := w.nodes[0].repaired.Before(w.table.StorageID, 0),
			(w.nodes[0].floor-1000)/1e6; before != margin {
			t.Errorf("tombstones may be purged up to %d, the low bound is a margin before %d", before, margin)
		}
	}
	tombstones()
	if again := w.run(r); *raised != 1 || again.Forgotten != 0 || again.Unpurged != 0 {
		t.Errorf("raised %d times; the second repair: %+v", *raised, again)
	}
	w.pass(2 * time.Hour)
	if w.run(r); *raised != 2 {
		t.Errorf("raised %d times within two hours", *raised)
	}
	if got := w.states(); got[0]+got[1]+got[2] != 0 {
		t.Errorf("states left: %v", got)
	}
	w.pass(2 * time.Hour)
	if w.run(r); *raised != 3 {
		t.Errorf("raised %d times: tombstones are no longer purged after all state was purged", *raised)
	}
	tombstones()
	w.change(w.nodes[1], "a", "after")
}

// TestTombstonesAreKeptWithoutLowBound for a table with state whose first low bound could not be raised.
func TestTombstonesAreKeptWithoutLowBound(t *testing.T) {
	w := paxosWorld(t)
	r, raised := w.purger()
	w.put(w.nodes[1], w.insert("x", "c", "missed", 5))
	if report := w.run(r); *raised != 1 || report.Unpurged != report.Ranges {
		t.Errorf("raised %d times, %+v", *raised, report)
	}
	if equal, _ := w.roots(); !equal {
		t.Error("a difference was not repaired")
	}
	if before := w.nodes[0].repaired.Before(w.table.StorageID, 0); before > 0 {
		t.Errorf("tombstones may be purged up to %d, although an old Paxos decision may restore the rows that they "+
			"delete", before)
	}
}

// TestRestrictedRepairKeepsPaxosState and all tombstones, because replicas outside its scope may have more.
func TestRestrictedRepairKeepsPaxosState(t *testing.T) {
	w := paxosWorld(t)
	r, raised := w.purger(w.nodes...)
	w.run(r) // raises the low bound
	w.pass(2 * time.Hour)
	w.change(w.nodes[1], "a", "after")
	before := w.nodes[0].repaired.Before(w.table.StorageID, 0)
	w.put(w.nodes[1], w.insert("x", "c", "missed", 5))
	kept, purges, notices := w.states(), w.counts[messaging.VerbPaxosPurge], w.counts[messaging.VerbRepaired]
	report := w.runIn(r, repair.Scope{Datacenters: []string{"dc1"}})
	if *raised != 1 || report.Rows != 1 || report.Forgotten != 0 ||
		w.counts[messaging.VerbPaxosPurge] != purges || w.counts[messaging.VerbRepaired] != notices {
		t.Errorf("raised %d times, %+v, requests %v", *raised, report, w.counts)
	}
	if got := w.states(); !slices.Equal(got, kept) || got[0] == 0 {
		t.Errorf("states %v, before the repair %v", got, kept)
	}
	if after := w.nodes[0].repaired.Before(w.table.StorageID, 0); after != before || before == 0 {
		t.Errorf("tombstones may be purged up to %d, before the repair up to %d", after, before)
	}
}

// TestPurgeNeedsKnownLowBound to one replica.
func TestPurgeNeedsKnownLowBound(t *testing.T) {
	w := paxosWorld(t)
	r, _ := w.purger(w.nodes[0], w.nodes[1])
	w.put(w.nodes[1], w.insert("x", "c", "missed", 5))
	report := w.run(r)
	if got := w.states(); report.Forgotten != 0 || report.Unpurged != report.Ranges || got[0] != 9 || got[2] != 10 {
		t.Errorf("%+v, states %v", report, got)
	}
	if equal, _ := w.roots(); !equal {
		t.Error("a difference was not repaired")
	}
	if before := w.nodes[0].repaired.Before(w.table.StorageID, 0); before > 0 {
		t.Errorf("tombstones may be purged up to %d, although no replica has purged the Paxos state before it", before)
	}
}

// TestTableWithoutPaxosHasNoLowBound, and its repair has no additional cost.
func TestTableWithoutPaxosHasNoLowBound(t *testing.T) {
	w := newWorld(t, 3, 3, "BLOCKING", 0, hints.Limits{})
	w.put(w.nodes[1], w.insert("x", "c", "plain", 5))
	r, raised := w.purger(w.nodes...)
	if report := w.run(r); *raised != 0 || w.counts[messaging.VerbPaxosPurge] != 0 || report.Rows == 0 {
		t.Errorf("raised %d times, %d purge requests, %+v", *raised, w.counts[messaging.VerbPaxosPurge], report)
	}
}

// TestTableWithOneReplicaIsPurged without a comparison.
func TestTableWithOneReplicaIsPurged(t *testing.T) {
	w := newWorld(t, 3, 1, "BLOCKING", 0, hints.Limits{})
	for i := range 9 {
		w.change(w.nodes[i%3], string(rune('a'+i)), "v")
	}
	w.pass(10 * time.Second)
	r, _ := w.purger(w.nodes...)
	outcome := errors.New("no answer")
	r.Start(repair.Job{Table: w.table.StorageID, Range: ring.FullRange(), PaxosOnly: true}, nil,
		func(_ repair.Report, err error) { outcome = err })
	w.pass(60 * time.Second)
	if got := w.states(); outcome != nil || got[0]+got[1]+got[2] != 0 || w.counts[messaging.VerbMerkle] != 0 {
		t.Errorf("%v: states left %v, %d requests of hashes", outcome, got, w.counts[messaging.VerbMerkle])
	}
}
