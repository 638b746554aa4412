package paxos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/messaging"
	"cqld/paxos/contention"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

func ballot(micros int64, node int) Ballot {
	return Ballot{Micros: micros, Node: ring.NodeID(node)}
}

func proposalOf(table *schema.Table, b, origin Ballot, key string) *Proposal {
	return &Proposal{Ballot: b, Origin: origin, Table: table.StorageID, Key: row.NewPartitionKey([]byte(key)),
		Update: row.AppendMutation(nil, mutationOf(table, key))}
}

func prepare(t *testing.T, l *Acceptor, table *schema.Table, b Ballot) *Promise {
	t.Helper()
	var got *Promise
	cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k")),
		Slices: []row.Slice{row.AllRows()}}
	l.Prepare(5, b, Ballot{}, cmd, func(p *Promise, err error) {
		if err != nil {
			t.Fatal(err)
		}
		c := *p
		c.Accepted, c.Commit = p.Accepted.Clone(), p.Commit.Clone()
		got = &c
	})
	return got
}

func accept(t *testing.T, l *Acceptor, p *Proposal) (refused Ballot) {
	t.Helper()
	l.Accept(5, p, func(b Ballot, err error) {
		if err != nil {
			t.Fatal(err)
		}
		refused = b
	})
	return refused
}

// TestAcceptorKeepsItsWord sends requests to one acceptor and checks that it keeps its promises.
func TestAcceptorKeepsItsWord(t *testing.T) {
	l, _, table := newAcceptor(t)
	if p := prepare(t, l, table, ballot(10, 1)); p.Refused || p.Page == nil {
		t.Fatalf("a first promise: %+v", p)
	}
	for _, b := range []Ballot{ballot(10, 1), ballot(10, 2), ballot(9, 3)} {
		if p := prepare(t, l, table, b); !p.Refused || p.Promised != ballot(10, 1) {
			t.Errorf("after a promise to 10/1, one to %v: %+v", b, p)
		}
	}
	if got := accept(t, l, proposalOf(table, ballot(10, 2), ballot(10, 2), "k")); got != ballot(10, 1) {
		t.Errorf("the time is the same, the node is not: refused for %v", got)
	}
	mine := proposalOf(table, ballot(10, 1), ballot(10, 1), "k")
	for range 2 {
		if got := accept(t, l, mine); got.Present() {
			t.Errorf("refused for %v", got)
		}
	}
	p := prepare(t, l, table, ballot(20, 2))
	if p.Refused || p.Accepted.Ballot != ballot(10, 1) || string(p.Accepted.Update) != string(mine.Update) ||
		p.Commit.Ballot.Present() {
		t.Errorf("a promise after acceptance: %+v", p)
	}
	if got := accept(t, l, mine); got.Present() {
		t.Errorf("a message that comes twice was accepted before the promise: refused for %v", got)
	}
	if got := accept(t, l, proposalOf(table, ballot(15, 1), ballot(15, 1), "k")); got != ballot(20, 2) {
		t.Errorf("an overtaken proposal: refused for %v", got)
	}
	taken := proposalOf(table, ballot(20, 2), ballot(10, 1), "k")
	accept(t, l, taken)
	l.Commit(5, taken, func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	p = prepare(t, l, table, ballot(30, 1))
	if p.Accepted.Ballot.Present() || p.Commit.Ballot != ballot(20, 2) || p.Commit.Origin != ballot(10, 1) {
		t.Errorf("a promise after the commit: %+v", p)
	}
	var r row.PageReader
	r.Reset(p.Page)
	if !r.NextPartition() {
		t.Error("what was decided cannot be read")
	}
	truncateNow(l.replica, coordinator.Truncation{Table: table.StorageID, ID: 1}, func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	if p = prepare(t, l, table, ballot(40, 1)); p.Refused || p.Commit.Ballot != ballot(20, 2) ||
		len(p.Commit.Update) > 0 {
		t.Errorf("a truncation forgets updates and no ballots: %+v", p)
	}
}

// TestAcceptorWithoutPromises sends proposals that rest on a previous ballot, and commits of accepted proposals.
func TestAcceptorWithoutPromises(t *testing.T) {
	l, engine, table := newAcceptor(t)
	after := func(b, previous Ballot) *Proposal {
		p := proposalOf(table, b, b, "k")
		p.Previous = previous
		return p
	}
	read := func(b, previous Ballot) (got Promise) {
		cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k")),
			Slices: []row.Slice{row.AllRows()}}
		l.Prepare(5, b, previous, cmd, func(p *Promise, err error) {
			if err != nil {
				t.Fatal(err)
			}
			got = *p
		})
		return got
	}
	commit := func(b Ballot) (failure error) {
		p := after(b, Ballot{})
		p.Update, p.Accepted = nil, true
		l.Commit(5, p, func(err error) { failure = err })
		return failure
	}
	prepare(t, l, table, ballot(10, 1))
	accept(t, l, proposalOf(table, ballot(10, 1), ballot(10, 1), "k"))
	if err := commit(ballot(11, 1)); !errors.Is(err, ErrNotAccepted) {
		t.Errorf("a commit of what was not accepted: %v", err)
	}
	for range 2 {
		if err := commit(ballot(10, 1)); err != nil && !errors.Is(err, ErrNotAccepted) {
			t.Error(err)
		}
	}
	if p := read(ballot(20, 1), ballot(10, 1)); !p.Unchanged || p.Refused || len(p.Page) == 2 {
		t.Errorf("nothing happened since, and the decided row is there: %+v", p)
	}
	if p := read(ballot(20, 1), ballot(9, 1)); p.Unchanged || p.Refused || p.Commit.Ballot != ballot(10, 1) ||
		len(p.Commit.Update) == 0 {
		t.Errorf("something was decided since: %+v", p)
	}
	if got := accept(t, l, after(ballot(30, 1), ballot(10, 1))); got != ballot(20, 1) {
		t.Errorf("a promise was given since: refused for %v", got)
	}
	if got := accept(t, l, after(ballot(20, 1), ballot(10, 1))); got != ballot(20, 1) {
		t.Errorf("the promise of the ballot itself shows that something else was there before: refused for %v", got)
	}
	for range 2 {
		if got := accept(t, l, after(ballot(30, 1), ballot(20, 1))); got.Present() {
			t.Errorf("refused for %v", got)
		}
	}
	// A duplicated message does not revoke a later promise.
	read(ballot(35, 2), Ballot{})
	if got := accept(t, l, after(ballot(30, 1), ballot(20, 1))); got.Present() {
		t.Errorf("it was accepted: refused for %v", got)
	}
	if got := accept(t, l, after(ballot(33, 1), ballot(33, 1))); got != ballot(35, 2) {
		t.Errorf("the promise to 35/2 is gone: refused for %v", got)
	}
	// The cached state equals the state on disk.
	key, partition := row.NewPartitionKey([]byte("k")),
		contention.Partition(table.StorageID, row.NewPartitionKey([]byte("k")))
	s, ok := l.recall(partition, 0)
	stored, err := NewAcceptor(replica.NewLocal(engine, l.view, nil), l.view, Unsafe{}).state(table, key)
	if err != nil || !ok || fmt.Sprint(s.promised, s.accepted.Ballot, s.accepted.Previous, s.commit.Ballot) !=
		fmt.Sprint(stored.promised, stored.accepted.Ballot, stored.accepted.Previous, stored.commit.Ballot) {
		t.Errorf("in memory %+v, on disk %+v: %v", s, stored, err)
	}
	// Streams write rows without the partition's queue.
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(engine.Apply([]*row.Mutation{stateMutation(table, key, promiseRow(l, ballot(90, 2)))}, true, check))
	l.Reload()
	if got := accept(t, l, after(ballot(40, 1), ballot(30, 1))); got != ballot(90, 2) {
		t.Errorf("a promise that came with the range: refused for %v", got)
	}
}

// TestLostStateIsNotAnswered removes the row of a state on disk, as a damaged or hostile member may. The acceptor knows
// from its cache that it acknowledged more, and must not answer as if it had not.
func TestLostStateIsNotAnswered(t *testing.T) {
	l, engine, table := newAcceptor(t)
	key := row.NewPartitionKey([]byte("k"))
	prepare(t, l, table, ballot(10, 1))
	accept(t, l, proposalOf(table, ballot(10, 1), ballot(10, 1), "k"))
	commit(t, l, proposalOf(table, ballot(10, 1), ballot(10, 1), "k"))
	lost := row.NewRow()
	lost.Deletion = row.Deletion{Timestamp: 1 << 50, LocalTime: 1}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(engine.Apply([]*row.Mutation{stateMutation(table, key, lost)}, true, check))
	cmd := &row.ReadCommand{Table: table.StorageID, Key: key, Slices: []row.Slice{row.AllRows()}}
	for _, previous := range []Ballot{{}, ballot(9, 1)} {
		var failure error
		l.Prepare(5, ballot(20, 1), previous, cmd, func(_ *Promise, err error) { failure = err })
		if failure == nil || !strings.Contains(failure.Error(), "older than what this node acknowledged") {
			t.Errorf("after %v: %v", previous, failure)
		}
	}
	l.Reload() // streams and truncations, which change such rows, invalidate the cache
	if p := prepare(t, l, table, ballot(20, 1)); p.Refused {
		t.Errorf("refused for %v", p.Promised)
	}
}

func promiseRow(l *Acceptor, b Ballot) *row.Row {
	r := row.NewRow()
	r.Cells = append(r.Cells, ballotCell(l.columns.promised, b))
	return r
}

// TestMemoryOfStatesIsBounded uses more partitions than the cache can hold.
func TestMemoryOfStatesIsBounded(t *testing.T) {
	a, _, _ := newAcceptor(t)
	for i := range len(a.shards) * shardStates * 2 {
		a.remember(fmt.Sprint(i), acceptorState{}, 0)
	}
	large := acceptorState{accepted: Proposal{Ballot: ballot(1, 1), Update: make([]byte, 2*shardUpdates)}}
	a.remember("large", large, 0)
	a.remember("large", large, 0)
	for i := range a.shards {
		s := &a.shards[i]
		if n := s.updateBytes; n > shardUpdates && len(s.states) > 1 || n < 0 || len(s.states) > shardStates {
			t.Errorf("shard %d: %d bytes accepted, of %d states", i, n, len(s.states))
		}
	}
	a.Reload()
	a.remember("late", acceptorState{}, 0)
	if _, ok := a.recall("late", 1); ok {
		t.Error("a state from before is kept")
	}
}

// TestRequestsOfAnEarlierRingAreRefused for all three verbs, also if another node is a replica, too.
func TestRequestsOfAnEarlierRingAreRefused(t *testing.T) {
	l, _, table := newAcceptor(t)
	p := proposalOf(table, ballot(10, 1), ballot(10, 1), "k")
	refusals := 0
	note := func(err error) {
		if _, ok := err.(*coordinator.NotReplica); ok {
			refusals++
		}
	}
	l.Prepare(4, p.Ballot, Ballot{}, &row.ReadCommand{Table: p.Table, Key: p.Key},
		func(_ *Promise, err error) { note(err) })
	l.Accept(4, p, func(_ Ballot, err error) { note(err) })
	l.Commit(4, p, note)
	if refusals != 3 {
		t.Errorf("%d of 3 refused", refusals)
	}
}

// TestMergedStatesAreTheGreater merges the states of acceptors in any order, as streaming a range does: the result has
// the latest promise, the latest commit, and the latest proposal if it is later.
func TestMergedStatesAreTheGreater(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 40 {
		var want acceptorState
		var rows []*row.Mutation
		_, _, table := newAcceptor(t)
		for range 3 {
			l, engine, _ := newAcceptor(t)
			for range rnd.IntN(6) {
				b := ballot(1+rnd.Int64N(8), 1)
				if p := prepare(t, l, table, b); p.Refused || rnd.IntN(3) == 0 {
					continue
				}
				// A ballot has one proposal, whichever acceptor accepts it.
				accept(t, l, proposalOf(table, b, ballot(b.Micros, 1), "k"))
			}
			if c := rnd.Int64N(9); c > 0 {
				l.Commit(5, proposalOf(table, ballot(c, 1), ballot(c, 1), "k"), func(error) {})
			}
			s, err := l.state(table, row.NewPartitionKey([]byte("k")))
			if err != nil {
				t.Fatal(err)
			}
			if s.promised.After(want.promised) {
				want.promised = s.promised
			}
			if s.commit.Ballot.After(want.commit.Ballot) {
				want.commit = s.commit
			}
			if s.accepted.Ballot.After(want.accepted.Ballot) {
				want.accepted = s.accepted
			}
			rows = append(rows, rowsAsMutation(t, engine, table))
		}
		if !want.accepted.Ballot.After(want.commit.Ballot) {
			want.accepted = Proposal{}
		}
		rnd.Shuffle(len(rows), func(i, k int) { rows[i], rows[k] = rows[k], rows[i] })
		l, engine, _ := newAcceptor(t)
		for _, m := range slices.Concat(rows, rows[:1]) {
			check := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			check(engine.Apply([]*row.Mutation{m}, false, check))
		}
		got, err := l.state(table, row.NewPartitionKey([]byte("k")))
		if err != nil || fmt.Sprint(got.promised, got.accepted, got.commit) != fmt.Sprint(want.promised, want.accepted,
			want.commit) {
			t.Fatalf("round %d: merged %+v, want %+v: %v", round, got, want, err)
		}
	}
}

// rowsAsMutation returns an acceptor's state in the form that streams transfer.
func rowsAsMutation(t *testing.T, engine *storage.Engine, table *schema.Table) *row.Mutation {
	t.Helper()
	key := row.NewPartitionKey([]byte("k"))
	page, err := engine.Read(nil, &row.ReadCommand{Table: schema.PaxosTable, Key: key,
		Slices: []row.Slice{row.AllRows()}})
	if err != nil {
		t.Fatal(err)
	}
	m := new(row.Mutation)
	m.Reset(schema.PaxosTable, key)
	var p row.PageReader
	var r row.Row
	p.Reset(page)
	for p.NextPartition() {
		for p.NextRow(&r) {
			m.AddRow(&r)
		}
	}
	return m
}

// TestPaxosMessages encodes and decodes all messages, and decodes malformed ones.
func TestPaxosMessages(t *testing.T) {
	acceptor, _, table := newAcceptor(t)
	l := &loopback{services: map[messaging.Verb]messaging.Service{}}
	Serve(l, acceptor)
	other := *acceptor.view.(*view)
	other.self = 2
	remote := NewDirectory(nil, l, &other)
	p := proposalOf(table, ballot(10, 1), ballot(9, 2), "k")
	p.Prior, p.Previous = ballot(8, 3), ballot(7, 1)
	p.History = History{Since: ballot(1, 9), Latest: []Ballot{ballot(8, 3), ballot(5, 2), ballot(6, 4)}}
	epoch, got, err := decodeProposal(appendProposal(nil, 7, p))
	if err != nil || epoch != 7 || fmt.Sprint(*got) != fmt.Sprint(*p) {
		t.Errorf("%+v, again %+v: %v", p, got, err)
	}
	promise := &Promise{Refused: true, Promised: ballot(11, 1), Accepted: *p, Floor: ballot(6, 0), Page: []byte("page")}
	promise.Accepted.Table, promise.Accepted.Key = 0, row.PartitionKey{}
	again, err := decodePromise(appendPromise(nil, promise))
	if err != nil || fmt.Sprint(*again) != fmt.Sprint(*promise) {
		t.Errorf("%+v, again %+v: %v", promise, again, err)
	}
	answered := false
	remote.Prepare(1, nil, 5, ballot(10, 1), Ballot{}, &row.ReadCommand{Table: p.Table, Key: p.Key}, time.Second,
		func(p *Promise, err error) {
			answered = err == nil && string(p.Page) == "\x00\x00"
		})
	if !answered {
		t.Error("a promise does not arrive")
	}
	for _, verb := range []messaging.Verb{messaging.VerbPaxosPrepare, messaging.VerbPaxosAccept,
		messaging.VerbPaxosCommit} {
		l.Request(1, verb, []byte{1, 0xFF, 0xFF, 0xFF, 0xFF}, time.Second, func(_ []byte, e error) { err = e })
		if err == nil {
			t.Errorf("verb %d took nonsense", verb)
		}
	}
}

// FuzzPaxosMessages passes arbitrary bytes to the decoders.
func FuzzPaxosMessages(f *testing.F) {
	p := &Proposal{Ballot: ballot(10, 1), Origin: ballot(9, 2), Table: 1024, Key: row.NewPartitionKey([]byte("k")),
		Update:  row.AppendMutation(nil, sampleMutation("k")),
		History: History{Latest: []Ballot{ballot(8, 3), ballot(7, 1)}}}
	f.Add(appendProposal(nil, 1, p))
	f.Add(appendPromise(nil, &Promise{Promised: p.Ballot, Accepted: *p, Commit: *p, Page: []byte{0, 0}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if epoch, p, err := decodeProposal(b); err == nil {
			if _, again, err := decodeProposal(appendProposal(nil, epoch, p)); err != nil ||
				fmt.Sprint(*again) != fmt.Sprint(*p) {
				t.Errorf("%+v, again %+v: %v", p, again, err)
			}
			_ = decodeMutation(p.Update, new(row.Mutation))
		}
		if p, err := decodePromise(b); err == nil {
			if again, err := decodePromise(appendPromise(nil, p)); err != nil || fmt.Sprint(*again) != fmt.Sprint(*p) {
				t.Errorf("%+v, again %+v: %v", p, again, err)
			}
		}
		var decoded Proposal
		_ = decodeUpdate(b, &decoded)
		if got, err := decodeTurn(b); err == nil {
			if again, err := decodeTurn(appendTurn(nil, got)); err != nil || again != got {
				t.Errorf("%+v: again %+v, %v", got, again, err)
			}
		}
	})
}
