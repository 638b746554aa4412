package acceptor

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/messaging"
	"cqld/paxos/ballot"
	"cqld/paxos/contention"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/block"
)

// newPurged returns an acceptor with its Purge.
func newPurged(t testing.TB) (*Acceptor, *storage.Engine, *Purge, *schema.Table) {
	l, engine, table := newAcceptor(t)
	return l, engine, purged(l, engine), table
}

func purged(l *Acceptor, engine *storage.Engine) *Purge {
	transport := &loopback{services: map[messaging.Verb]messaging.Service{}}
	return NewPurge(PurgeOptions{Acceptor: l, Engine: engine, Transport: transport, Clock: stillClock{},
		Run:       func(f func()) { f() },
		Streaming: func(schema.StorageID) bool { return false }, Confirm: func(done func()) { done() }})
}

func (r *Purge) purgeStep(t testing.TB, table *schema.Table, lowBound int64, forget bool) (PurgeStep, error) {
	t.Helper()
	var step PurgeStep
	failure := fmt.Errorf("no answer")
	topology := r.o.Acceptor.view.Topology()
	r.Paxos(r.o.Acceptor.view.Self(), &PurgeRequest{Epoch: topology.Epoch(), Moved: topology.Moved(),
		Table:  table.StorageID,
		Tokens: ring.FullRange(), LowBound: lowBound, Forget: forget}, time.Second,
		func(s PurgeStep, err error) { step, failure = s, err })
	return step, failure
}

// TestTheFloorIsAPromise of every acceptor, for partitions with and without state.
func TestTheFloorIsAPromise(t *testing.T) {
	l, _, table := newAcceptor(t)
	prepare(t, l, table, ballotAt(10, 1))
	l.view.(*view).lowBound = 20
	for _, b := range []ballot.Ballot{ballotAt(10, 1), ballotAt(20, 1)} {
		if got := accept(t, l, proposalOf(table, b, b, "k")); got.Micros != 20 {
			t.Errorf("proposal %v below the low bound was refused for %v", b, got)
		}
		if got := accept(t, l, proposalOf(table, b, b, "other")); got.Micros != 20 {
			t.Errorf("proposal %v of a partition without state was refused for %v", b, got)
		}
	}
	p := prepare(t, l, table, ballotAt(20, 2))
	if !p.Refused || p.Promised.Micros != 20 {
		t.Errorf("a promise at the low bound: %+v", p)
	}
	rests := proposalOf(table, ballotAt(30, 1), ballotAt(30, 1), "k")
	rests.Previous = ballotAt(10, 1)
	if got := accept(t, l, rests); got.Micros != 20 {
		t.Errorf("a proposal that is based on a ballot below the low bound was refused for %v", got)
	}
	if p = prepare(t, l, table, ballotAt(30, 2)); p.Refused || p.LowBound.Micros != 20 {
		t.Errorf("a promise after the low bound: %+v", p)
	}
	rests.Ballot, rests.Previous = ballotAt(40, 2), ballotAt(30, 2)
	if got := accept(t, l, rests); got.Present() {
		t.Errorf("refused for %v", got)
	}
}

// TestAPurgeTakesAllPages lists and purges states in several pages; a step handles one page.
func TestAPurgeTakesAllPages(t *testing.T) {
	const states = stepRows + 100
	l, _, r, table := newPurged(t)
	for i := range states {
		p := proposalOf(table, ballotAt(10, 1), ballotAt(10, 1), fmt.Sprint("key", i))
		accept(t, l, p)
		if i%2 == 0 {
			l.Commit(5, p, func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	l.view.(*view).lowBound = 20
	topology := l.view.Topology()
	walk := func(forget bool) (unsettled map[string]bool, forgotten, steps int) {
		unsettled = map[string]bool{}
		req := PurgeRequest{Epoch: topology.Epoch(), Moved: topology.Moved(), Table: table.StorageID,
			Tokens: ring.FullRange(), LowBound: 20, Forget: forget}
		for more := true; more; steps++ {
			r.Paxos(l.view.Self(), &req, time.Second, func(s PurgeStep, err error) {
				if err != nil {
					t.Fatal(err)
				}
				for _, key := range s.Unsettled {
					unsettled[string(key.Bytes)] = true
				}
				forgotten += s.Forgotten
				more, req.After = s.Next != nil, s.Next
			})
		}
		return unsettled, forgotten, steps
	}
	if unsettled, _, steps := walk(false); len(unsettled) != states/2 || steps < 2 {
		t.Errorf("%d of %d states are unsettled, want half of them, in %d steps", len(unsettled), states, steps)
	}
	if _, forgotten, _ := walk(true); forgotten != states/2 {
		t.Errorf("%d of %d states are forgotten, want half of them", forgotten, states)
	}
}

// TestAnAcceptorForgetsWhatItMay purges states, and keeps those after the low bound and unsettled ones.
func TestAnAcceptorForgetsWhatItMay(t *testing.T) {
	l, engine, r, table := newPurged(t)
	decide := func(key string, micros int64) {
		p := proposalOf(table, ballotAt(micros, 1), ballotAt(micros, 1), key)
		accept(t, l, p)
		l.Commit(5, p, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	decide("old", 10)
	decide("young", 30)
	decide("voted", 10)
	later := proposalOf(table, ballotAt(30, 1), ballotAt(30, 1), "voted")
	later.Update = nil
	accept(t, l, later)
	accept(t, l, proposalOf(table, ballotAt(10, 1), ballotAt(10, 1), "open"))
	void := proposalOf(table, ballotAt(10, 1), ballotAt(10, 1), "void")
	void.Update = nil
	accept(t, l, void)
	accept(t, l, proposalOf(table, ballotAt(30, 1), ballotAt(10, 1), "finished"))
	if _, err := r.purgeStep(t, table, 20, false); err == nil {
		t.Error("a low bound that was not heard of is good for a purge")
	}
	l.view.(*view).lowBound = 20
	for range 2 {
		step, err := r.purgeStep(t, table, 20, false)
		if err != nil || len(step.Unsettled) != 1 || string(step.Unsettled[0].Bytes) != "open" || step.Next != nil {
			t.Fatalf("unsettled %+v, %v", step, err)
		}
	}
	step, err := r.purgeStep(t, table, 20, true)
	if err != nil || step.Forgotten != 3 {
		t.Fatalf("forgotten %+v, %v", step, err)
	}
	if step, err = r.purgeStep(t, table, 20, true); err != nil || step.Forgotten != 0 {
		t.Errorf("forgotten again: %+v, %v", step, err)
	}
	for key, want := range map[string]ballot.Ballot{"old": {}, "young": ballotAt(30, 1), "open": ballotAt(10, 1),
		"void":     {},
		"finished": ballotAt(30, 1), "voted": ballotAt(30, 1)} {
		for _, from := range []string{"memory", "disk"} {
			s, _, err := l.load(&cachedState{}, contention.Partition(table.StorageID,
				row.NewPartitionKey([]byte(key))), table, row.NewPartitionKey([]byte(key)), false)
			if err != nil || s.stored() != want || s.latest().Micros < 20 || s.commit.Ballot.Present() &&
				!s.commit.Ballot.After(s.lowBound) {
				t.Errorf("%s, from %s: %v, want %v (%v)", key, from, s.stored(), want, err)
			}
			l.Reload()
		}
	}
	if got := accept(t, l, proposalOf(table, ballotAt(9, 2), ballotAt(9, 2), "old")); got.Micros != 20 {
		t.Errorf("a purged state does not refuse: %v", got)
	}
	if cells := rowsOn(t, engine); cells != 4 {
		t.Errorf("%d rows are left, want 4", cells)
	}
	if wrapped, err := engine.Sweep(1000); !wrapped || err != nil {
		t.Fatal(wrapped, err)
	}
	block, _, err := engine.Export(nil, schema.PaxosTable, ring.FullRange(), nil, nil, 1<<20)
	if err != nil || bytes.Contains(block, []byte("old")) || !bytes.Contains(block, []byte("young")) {
		t.Errorf("storage still has the purged state, or nothing: %q (%v)", block, err)
	}
}

// TestWhatIsForgottenStaysForgotten after a power loss: once all replicas have confirmed the purge, tombstones may be
// purged, and the old decision must not reappear after that.
func TestWhatIsForgottenStaysForgotten(t *testing.T) {
	disk := vfs.NewCrashableMem()
	l, engine, table := newAcceptorOn(t, disk, storage.SyncBatch)
	void := proposalOf(table, ballotAt(10, 1), ballotAt(10, 1), "k")
	void.Update = nil
	accept(t, l, void)
	l.view.(*view).lowBound = 20
	if step, err := purged(l, engine).purgeStep(t, table, 20, true); err != nil || step.Forgotten != 1 {
		t.Fatalf("forgotten %+v, %v", step, err)
	}
	_, after, _ := newAcceptorOn(t, disk.CrashClone(vfs.CrashCloneCfg{}), storage.SyncBatch)
	if n := rowsOn(t, after); n != 0 {
		t.Errorf("%d states are back", n)
	}
}

// rowsOn counts the states with content in storage.
func rowsOn(t *testing.T, engine *storage.Engine) (n int) {
	page, err := engine.Read(nil, &row.ReadCommand{Table: schema.PaxosTable,
		Range: row.KeyRange{Tokens: ring.FullRange()}, Slices: []row.Slice{row.AllRows()}})
	if err != nil {
		t.Fatal(err)
	}
	var p row.PageReader
	var x row.Row
	for p.Reset(page); p.NextPartition(); {
		for p.NextRow(&x) {
			if len(x.Cells) > 0 {
				n++
			}
		}
	}
	return n
}

// TestStatesOfDroppedTablesGo shows that a scan for tables with state removes old states of dropped tables.
func TestStatesOfDroppedTablesGo(t *testing.T) {
	l, engine, r, table := newPurged(t)
	now := stillClock{}.Now().UnixMicro()
	accept(t, l, proposalOf(table, ballotAt(now, 1), ballotAt(now, 1), "k"))
	for i, at := range []int64{now - 2*droppedAfter, now - droppedAfter/2} {
		gone := *table
		gone.ID = schema.UUID{9, byte(i)}
		x := row.NewRow()
		x.Cells = append(x.Cells, ballotCell(l.columns.promised, ballotAt(at, 1)))
		if err := engine.Apply([]*row.Mutation{stateMutation(&gone, row.NewPartitionKey([]byte("k")), x)}, true,
			func(error) {}); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	for id, want := range map[schema.StorageID]bool{table.StorageID: true, table.StorageID + 1: false} {
		r.Conditional(id, func(got bool, err error) {
			if asked++; got != want || err != nil {
				t.Errorf("table %d is conditional: %v, %v", id, got, err)
			}
		})
	}
	if n := rowsOn(t, engine); asked != 2 || n != 2 {
		t.Errorf("%d answers, %d states are left, want the table's and one of a table not heard of yet", asked, n)
	}
}

// TestATableIsConditionalAtOnce also shortly after a scan.
func TestATableIsConditionalAtOnce(t *testing.T) {
	l, _, r, table := newPurged(t)
	var got []bool
	ask := func() {
		r.Conditional(table.StorageID, func(any bool, err error) { got = append(got, any && err == nil) })
	}
	ask()
	prepare(t, l, table, ballotAt(10, 1))
	ask()
	if !slices.Equal(got, []bool{false, true}) {
		t.Errorf("answers %v", got)
	}
}

// TestWhoIsToldMayAskAgain checks that callbacks run without a lock.
func TestWhoIsToldMayAskAgain(t *testing.T) {
	_, _, r, table := newPurged(t)
	answers := 0
	r.Conditional(table.StorageID, func(bool, error) {
		r.Conditional(table.StorageID, func(bool, error) { answers++ })
		answers++
	})
	if answers != 2 {
		t.Errorf("%d answers", answers)
	}
}

// BenchmarkPurge purges 110,000 partitions whose last change, an insert of 110 bytes, was committed by its accepted
// proposal. It measures their size on disk before and after, and the time to list and to purge a state.
func BenchmarkPurge(b *testing.B) {
	const states = 110_000 // more than the tombstone limit of a client's read
	for b.Loop() {
		b.StopTimer()
		l, engine, r, table := newPurged(b)
		for i := range states {
			key := fmt.Sprintf("partition %d", i)
			p := proposalOf(table, ballotAt(int64(10+i), 1), ballotAt(int64(10+i), 1), key)
			m := mutationOf(table, key)
			x := row.NewRow()
			x.Cells = append(x.Cells, row.Cell{Column: 1, Timestamp: 1, Value: make([]byte, 110)})
			m.AddRow(x)
			p.Update = row.AppendMutation(nil, m)
			l.Accept(5, p, func(ballot.Ballot, error) {})
			p.Accepted, p.Update = true, nil
			l.Commit(5, p, func(err error) {
				if err != nil {
					b.Fatal(err)
				}
			})
		}
		size := func(name string) {
			if err := engine.CompactTable(b.Context(), schema.PaxosTable, nil); err != nil {
				b.Fatal(err)
			}
			bytes, err := engine.SizeOf(schema.PaxosTable, ring.FullRange())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(bytes)/states, name)
		}
		size("B-before/state")
		l.view.(*view).lowBound = 1 << 40
		topology := l.view.Topology()
		walk := func(forget bool) {
			began := time.Now()
			req := &PurgeRequest{Epoch: 5, Moved: topology.Moved(), Table: table.StorageID, Tokens: ring.FullRange(),
				LowBound: 1 << 40, Forget: forget}
			for done := false; !done; {
				r.Paxos(1, req, time.Second, func(s PurgeStep, err error) {
					if err != nil {
						b.Fatal(err)
					}
					req.After, done = s.Next, s.Next == nil
				})
			}
			b.ReportMetric(float64(time.Since(began).Nanoseconds())/states,
				map[bool]string{false: "ns-list/state", true: "ns-forget/state"}[forget])
		}
		b.StartTimer()
		walk(false)
		walk(true)
		b.StopTimer()
		r.o.Look = 0
		// States that storage has not removed yet are ignored.
		r.tablesWithState(func(found map[schema.StorageID]bool, err error) {
			if len(found) > 0 || err != nil {
				b.Fatal(found, err)
			}
		})
		for wrapped := false; !wrapped; {
			var err error
			if wrapped, err = engine.Sweep(10_000); err != nil {
				b.Fatal(err)
			}
		}
		size("B-after/state")
		b.StartTimer()
	}
}

func commit(t *testing.T, l *Acceptor, p *ballot.Proposal) {
	t.Helper()
	l.Commit(5, p, func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestAnUndecidedStateClaimsNoDecision checks what a replica may receive of another one's state: the latest promise,
// and the latest decision as an accepted proposal, unless a later proposal was accepted.
func TestAnUndecidedStateClaimsNoDecision(t *testing.T) {
	decided, later, promised := ballotAt(10, 1), ballotAt(20, 2), ballotAt(30, 3)
	for _, test := range []struct {
		name     string
		prepare  func(l *Acceptor, table *schema.Table)
		accepted ballot.Ballot
		promised ballot.Ballot
	}{
		{"decided and accepted", func(l *Acceptor, table *schema.Table) {
			accept(t, l, proposalOf(table, decided, decided, "k"))
			short := *proposalOf(table, decided, decided, "k")
			short.Update, short.Accepted = nil, true
			commit(t, l, &short)
		}, decided, decided},
		{"decided without a vote", func(l *Acceptor, table *schema.Table) {
			commit(t, l,
				proposalOf(table, decided, decided, "k"))
		}, decided, decided},
		{"a later proposal", func(l *Acceptor, table *schema.Table) {
			commit(t, l, proposalOf(table, decided, decided, "k"))
			accept(t, l, proposalOf(table, later, later, "k"))
		}, later, later},
		{"a later promise", func(l *Acceptor, table *schema.Table) {
			commit(t, l, proposalOf(table, decided, decided, "k"))
			prepare(t, l, table, promised)
		}, decided, promised},
		{"not decided", func(l *Acceptor, table *schema.Table) { accept(t, l, proposalOf(table, later, later, "k")) },
			later, later},
		{"nothing accepted", func(l *Acceptor, table *schema.Table) { prepare(t, l, table, promised) }, ballot.Ballot{},
			promised},
	} {
		source, from, table := newAcceptor(t)
		test.prepare(source, table)
		selected := source.Select([]*schema.Table{table})
		states, _, err := from.Export(nil, schema.PaxosTable, ring.FullRange(), selected, nil, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		undecide := func(_ row.PartitionKey, r *row.Row) error { return source.Undecide(r) }
		if states, err = block.Edit(states, undecide); err != nil {
			t.Fatal(err)
		}
		l, to, table := newAcceptor(t)
		file := to.NewIngestion(schema.PaxosTable, ring.FullRange())
		if err := errors.Join(file.Add(states), file.Commit()); err != nil {
			t.Fatal(err)
		}
		l.Reload()
		s, err := l.state(table, row.NewPartitionKey([]byte("k")))
		if err != nil || s.commit.Ballot.Present() || s.accepted.Ballot != test.accepted ||
			s.stored() != test.promised ||
			(len(s.accepted.Update) > 0) != test.accepted.Present() {
			t.Errorf("%s: decided %v, accepted %v with %d bytes, promised %v, %v; want accepted %v, promised %v",
				test.name, s.commit.Ballot,
				s.accepted.Ballot, len(s.accepted.Update), s.stored(), err, test.accepted, test.promised)
		}
	}
}
