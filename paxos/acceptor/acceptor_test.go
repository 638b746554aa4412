package acceptor

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
	"cqld/paxos/ballot"
	"cqld/paxos/contention"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

func ballotAt(micros int64, node int) ballot.Ballot {
	return ballot.Ballot{Micros: micros, Node: ring.NodeID(node)}
}

func proposalOf(table *schema.Table, b, origin ballot.Ballot, key string) *ballot.Proposal {
	return &ballot.Proposal{Ballot: b, Origin: origin, Table: table.StorageID, Key: row.NewPartitionKey([]byte(key)),
		Update: row.AppendMutation(nil, mutationOf(table, key))}
}

func prepare(t *testing.T, l *Acceptor, table *schema.Table, b ballot.Ballot) *ballot.Promise {
	t.Helper()
	var got *ballot.Promise
	cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k")),
		Slices: []row.Slice{row.AllRows()}}
	l.Prepare(5, b, ballot.Ballot{}, cmd, func(p *ballot.Promise, err error) {
		if err != nil {
			t.Fatal(err)
		}
		c := *p
		c.Accepted, c.Commit = p.Accepted.Clone(), p.Commit.Clone()
		got = &c
	})
	return got
}

func accept(t *testing.T, l *Acceptor, p *ballot.Proposal) (refused ballot.Ballot) {
	t.Helper()
	l.Accept(5, p, func(b ballot.Ballot, err error) {
		if err != nil {
			t.Fatal(err)
		}
		refused = b
	})
	return refused
}

// TestPreviousBallotDoesNotOverrideAPromise sends a proposal that names a previous ballot after its own: a faulty
// member must not make an acceptor accept below its promise.
func TestPreviousBallotDoesNotOverrideAPromise(t *testing.T) {
	l, _, table := newAcceptor(t)
	prepare(t, l, table, ballotAt(20, 2))
	forged := proposalOf(table, ballotAt(10, 1), ballotAt(10, 1), "k")
	forged.Previous = ballotAt(30, 1)
	if got := accept(t, l, forged); got != ballotAt(20, 2) {
		t.Errorf("refused for %v", got)
	}
}

// TestAcceptorKeepsItsWord sends requests to one acceptor and checks that it keeps its promises.
func TestAcceptorKeepsItsWord(t *testing.T) {
	l, _, table := newAcceptor(t)
	if p := prepare(t, l, table, ballotAt(10, 1)); p.Refused || p.Page == nil {
		t.Fatalf("a first promise: %+v", p)
	}
	for _, b := range []ballot.Ballot{ballotAt(10, 1), ballotAt(10, 2), ballotAt(9, 3)} {
		if p := prepare(t, l, table, b); !p.Refused || p.Promised != ballotAt(10, 1) {
			t.Errorf("after a promise to 10/1, one to %v: %+v", b, p)
		}
	}
	if got := accept(t, l, proposalOf(table, ballotAt(10, 2), ballotAt(10, 2), "k")); got != ballotAt(10, 1) {
		t.Errorf("the time is the same, the node is not: refused for %v", got)
	}
	mine := proposalOf(table, ballotAt(10, 1), ballotAt(10, 1), "k")
	for range 2 {
		if got := accept(t, l, mine); got.Present() {
			t.Errorf("refused for %v", got)
		}
	}
	p := prepare(t, l, table, ballotAt(20, 2))
	if p.Refused || p.Accepted.Ballot != ballotAt(10, 1) || string(p.Accepted.Update) != string(mine.Update) ||
		p.Commit.Ballot.Present() {
		t.Errorf("a promise after acceptance: %+v", p)
	}
	if got := accept(t, l, mine); got.Present() {
		t.Errorf("a duplicate of a message that was accepted before the promise: refused for %v", got)
	}
	if got := accept(t, l, proposalOf(table, ballotAt(15, 1), ballotAt(15, 1), "k")); got != ballotAt(20, 2) {
		t.Errorf("an overtaken proposal: refused for %v", got)
	}
	taken := proposalOf(table, ballotAt(20, 2), ballotAt(10, 1), "k")
	accept(t, l, taken)
	l.Commit(5, taken, func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	p = prepare(t, l, table, ballotAt(30, 1))
	if p.Accepted.Ballot.Present() || p.Commit.Ballot != ballotAt(20, 2) || p.Commit.Origin != ballotAt(10, 1) {
		t.Errorf("a promise after the commit: %+v", p)
	}
	var r row.PageReader
	r.Reset(p.Page)
	if !r.NextPartition() {
		t.Error("the decided value cannot be read")
	}
	truncateNow(l.replica, coordinator.Truncation{Table: table.StorageID, ID: 1}, func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	if p = prepare(t, l, table, ballotAt(40, 1)); p.Refused || p.Commit.Ballot != ballotAt(20, 2) ||
		len(p.Commit.Update) > 0 {
		t.Errorf("a truncation forgets updates and no ballots: %+v", p)
	}
}

// TestAcceptorWithoutPromises sends proposals that rest on a previous ballot, and commits of accepted proposals.
func TestAcceptorWithoutPromises(t *testing.T) {
	l, engine, table := newAcceptor(t)
	after := func(b, previous ballot.Ballot) *ballot.Proposal {
		p := proposalOf(table, b, b, "k")
		p.Previous = previous
		return p
	}
	read := func(b, previous ballot.Ballot) (got ballot.Promise) {
		cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k")),
			Slices: []row.Slice{row.AllRows()}}
		l.Prepare(5, b, previous, cmd, func(p *ballot.Promise, err error) {
			if err != nil {
				t.Fatal(err)
			}
			got = *p
		})
		return got
	}
	commit := func(b ballot.Ballot) (failure error) {
		p := after(b, ballot.Ballot{})
		p.Update, p.Accepted = nil, true
		l.Commit(5, p, func(err error) { failure = err })
		return failure
	}
	prepare(t, l, table, ballotAt(10, 1))
	accept(t, l, proposalOf(table, ballotAt(10, 1), ballotAt(10, 1), "k"))
	if err := commit(ballotAt(11, 1)); !errors.Is(err, ballot.ErrNotAccepted) {
		t.Errorf("a commit of an unaccepted proposal: %v", err)
	}
	for range 2 {
		if err := commit(ballotAt(10, 1)); err != nil && !errors.Is(err, ballot.ErrNotAccepted) {
			t.Error(err)
		}
	}
	if p := read(ballotAt(20, 1), ballotAt(10, 1)); !p.Unchanged || p.Refused || len(p.Page) == 2 {
		t.Errorf("nothing happened since, and the decided row is there: %+v", p)
	}
	if p := read(ballotAt(20, 1), ballotAt(9, 1)); p.Unchanged || p.Refused || p.Commit.Ballot != ballotAt(10, 1) ||
		len(p.Commit.Update) == 0 {
		t.Errorf("something was decided since: %+v", p)
	}
	if got := accept(t, l, after(ballotAt(30, 1), ballotAt(10, 1))); got != ballotAt(20, 1) {
		t.Errorf("a promise was given since: refused for %v", got)
	}
	if got := accept(t, l, after(ballotAt(20, 1), ballotAt(10, 1))); got != ballotAt(20, 1) {
		t.Errorf("the promise of the ballot itself shows that something else was there before: refused for %v", got)
	}
	for range 2 {
		if got := accept(t, l, after(ballotAt(30, 1), ballotAt(20, 1))); got.Present() {
			t.Errorf("refused for %v", got)
		}
	}
	// A duplicated message does not revoke a later promise.
	read(ballotAt(35, 2), ballot.Ballot{})
	if got := accept(t, l, after(ballotAt(30, 1), ballotAt(20, 1))); got.Present() {
		t.Errorf("it was accepted: refused for %v", got)
	}
	if got := accept(t, l, after(ballotAt(33, 1), ballotAt(33, 1))); got != ballotAt(35, 2) {
		t.Errorf("the promise to 35/2 was lost: refused for %v", got)
	}
	// The cached state equals the state on disk.
	key, partition := row.NewPartitionKey([]byte("k")),
		contention.Partition(table.StorageID, row.NewPartitionKey([]byte("k")))
	s, ok := l.lookUp(partition, 0)
	stored, err := New(replica.NewLocal(engine, l.view, nil), l.view).state(table, key)
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
	check(engine.Apply([]*row.Mutation{stateMutation(table, key, promiseRow(l, ballotAt(90, 2)))}, true, check))
	l.Reload()
	if got := accept(t, l, after(ballotAt(40, 1), ballotAt(30, 1))); got != ballotAt(90, 2) {
		t.Errorf("a promise that was streamed with the range: refused for %v", got)
	}
}

// TestLostStateIsNotAnswered removes the row of a state on disk, as a damaged or hostile member may. The acceptor knows
// from its cache that it acknowledged more, and must not answer as if it had not.
func TestLostStateIsNotAnswered(t *testing.T) {
	l, engine, table := newAcceptor(t)
	key := row.NewPartitionKey([]byte("k"))
	prepare(t, l, table, ballotAt(10, 1))
	accept(t, l, proposalOf(table, ballotAt(10, 1), ballotAt(10, 1), "k"))
	commit(t, l, proposalOf(table, ballotAt(10, 1), ballotAt(10, 1), "k"))
	lost := row.NewRow()
	lost.Deletion = row.Deletion{Timestamp: 1 << 50, LocalTime: 1}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(engine.Apply([]*row.Mutation{stateMutation(table, key, lost)}, true, check))
	cmd := &row.ReadCommand{Table: table.StorageID, Key: key, Slices: []row.Slice{row.AllRows()}}
	for _, previous := range []ballot.Ballot{{}, ballotAt(9, 1)} {
		var failure error
		l.Prepare(5, ballotAt(20, 1), previous, cmd, func(_ *ballot.Promise, err error) { failure = err })
		if failure == nil || !strings.Contains(failure.Error(), "older than what this node acknowledged") {
			t.Errorf("after %v: %v", previous, failure)
		}
	}
	l.Reload() // streams and truncations, which change such rows, invalidate the cache
	if p := prepare(t, l, table, ballotAt(20, 1)); p.Refused {
		t.Errorf("refused for %v", p.Promised)
	}
}

func promiseRow(l *Acceptor, b ballot.Ballot) *row.Row {
	r := row.NewRow()
	r.Cells = append(r.Cells, ballotCell(l.columns.promised, b))
	return r
}

// TestMemoryOfStatesIsBounded uses more partitions than the cache can hold.
func TestMemoryOfStatesIsBounded(t *testing.T) {
	a, _, _ := newAcceptor(t)
	for i := range len(a.shards) * shardStates * 2 {
		a.store(fmt.Sprint(i), partitionState{}, 0)
	}
	large := partitionState{accepted: ballot.Proposal{Ballot: ballotAt(1, 1), Update: make([]byte, 2*shardUpdates)}}
	a.store("large", large, 0)
	a.store("large", large, 0)
	for i := range a.shards {
		s := &a.shards[i]
		if n := s.updateBytes; n > shardUpdates && len(s.states) > 1 || n < 0 || len(s.states) > shardStates {
			t.Errorf("shard %d: %d bytes accepted, of %d states", i, n, len(s.states))
		}
	}
	a.Reload()
	a.store("late", partitionState{}, 0)
	if _, ok := a.lookUp("late", 1); ok {
		t.Error("a state from before is kept")
	}
}

// TestRequestsOfAnEarlierRingAreRefused for all three verbs, also if another node is a replica, too.
func TestRequestsOfAnEarlierRingAreRefused(t *testing.T) {
	l, _, table := newAcceptor(t)
	p := proposalOf(table, ballotAt(10, 1), ballotAt(10, 1), "k")
	refusals := 0
	note := func(err error) {
		if _, ok := err.(*coordinator.NotReplica); ok {
			refusals++
		}
	}
	l.Prepare(4, p.Ballot, ballot.Ballot{}, &row.ReadCommand{Table: p.Table, Key: p.Key},
		func(_ *ballot.Promise, err error) { note(err) })
	l.Accept(4, p, func(_ ballot.Ballot, err error) { note(err) })
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
		var want partitionState
		var rows []*row.Mutation
		_, _, table := newAcceptor(t)
		for range 3 {
			l, engine, _ := newAcceptor(t)
			for range rnd.IntN(6) {
				b := ballotAt(1+rnd.Int64N(8), 1)
				if p := prepare(t, l, table, b); p.Refused || rnd.IntN(3) == 0 {
					continue
				}
				// A ballot has one proposal, whichever acceptor accepts it.
				accept(t, l, proposalOf(table, b, ballotAt(b.Micros, 1), "k"))
			}
			if c := rnd.Int64N(9); c > 0 {
				l.Commit(5, proposalOf(table, ballotAt(c, 1), ballotAt(c, 1), "k"), func(error) {})
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
			want.accepted = ballot.Proposal{}
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
	p := proposalOf(table, ballotAt(10, 1), ballotAt(9, 2), "k")
	p.Prior, p.Previous = ballotAt(8, 3), ballotAt(7, 1)
	p.History = ballot.History{
		Since:  ballotAt(1, 9),
		Latest: []ballot.Ballot{ballotAt(8, 3), ballotAt(5, 2), ballotAt(6, 4)},
	}
	epoch, got, err := decodeProposal(appendProposal(nil, 7, p))
	if err != nil || epoch != 7 || fmt.Sprint(*got) != fmt.Sprint(*p) {
		t.Errorf("%+v, again %+v: %v", p, got, err)
	}
	promise := &ballot.Promise{
		Refused:  true,
		Promised: ballotAt(11, 1),
		Accepted: *p,
		LowBound: ballotAt(6, 0),
		Page:     []byte("page"),
	}
	promise.Accepted.Table, promise.Accepted.Key = 0, row.PartitionKey{}
	again, err := decodePromise(appendPromise(nil, promise))
	if err != nil || fmt.Sprint(*again) != fmt.Sprint(*promise) {
		t.Errorf("%+v, again %+v: %v", promise, again, err)
	}
	answered := false
	cmd := &row.ReadCommand{Table: p.Table, Key: p.Key}
	remote.Prepare(1, nil, 5, ballotAt(10, 1), ballot.Ballot{}, cmd, time.Second,
		func(p *ballot.Promise, err error) {
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
	p := &ballot.Proposal{Ballot: ballotAt(10, 1), Origin: ballotAt(9, 2), Table: 1024,
		Key:     row.NewPartitionKey([]byte("k")),
		Update:  row.AppendMutation(nil, sampleMutation("k")),
		History: ballot.History{Latest: []ballot.Ballot{ballotAt(8, 3), ballotAt(7, 1)}}}
	f.Add(appendProposal(nil, 1, p))
	f.Add(appendPromise(nil, &ballot.Promise{Promised: p.Ballot, Accepted: *p, Commit: *p, Page: []byte{0, 0}}))
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
		var decoded ballot.Proposal
		_ = decodeUpdate(b, &decoded)
	})
}
