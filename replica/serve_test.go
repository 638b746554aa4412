package replica

import (
	"errors"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/testcluster"
	"cqld/storage/failure"
)

// loopback is a transport whose requests arrive at once, in memory that is overwritten afterwards, as in a real
// transport.
type loopback struct {
	services map[messaging.Verb]messaging.Service
	verbs    []messaging.Verb
}

func (l *loopback) Handle(s messaging.Service) { l.services[s.Verb] = s }
func (l *loopback) Run(_ int, f func()) error {
	f()
	return nil
}
func (l *loopback) Send(ring.NodeID, messaging.Verb, []byte) {}
func (v *view) Self() ring.NodeID                            { return v.self }
func (v *view) Schema() *schema.Schema                       { return v.schema }
func (v *view) Topology() *ring.Topology                     { return v.topology }
func (v *view) Alive(ring.NodeID) bool                       { return true }
func (v *view) PaxosFloor(schema.StorageID) int64            { return v.floor }

// Queue applies as Apply does.
func (e *engine) Queue(ms []*row.Mutation, durable bool, done func(error)) error {
	return e.Apply(ms, durable, done)
}

func (e *engine) Commit() {}

// Forget applies as Apply does.
func (e *engine) Forget(ms []*row.Mutation, durable bool, done func(error)) error {
	return e.Apply(ms, durable, done)
}

func (e *engine) Read(d []byte, _ *row.ReadCommand) ([]byte, error) {
	return append(d, e.page...), e.err
}
func (e *engine) Truncate(id schema.StorageID) error { e.truncated = id; return e.err }

func (l *loopback) Request(_ ring.NodeID, v messaging.Verb, payload []byte, _ time.Duration, reply messaging.Reply) {
	l.verbs = append(l.verbs, v)
	request := append([]byte(nil), payload...)
	l.services[v].Handler(2, request, func(answer []byte, err error) {
		answer = append([]byte(nil), answer...)
		reply(answer, err)
		clear(answer)
	})
	clear(request)
}

type view struct {
	self     ring.NodeID
	schema   *schema.Schema
	topology *ring.Topology
	floor    int64 // of every table
}

// engine records its arguments.
type engine struct {
	applied   []string
	durable   bool
	truncated schema.StorageID
	page      []byte
	err       error
}

func (e *engine) Apply(ms []*row.Mutation, durable bool, done func(error)) error {
	for _, m := range ms {
		e.applied = append(e.applied, string(m.Key.Bytes))
	}
	e.durable = durable
	done(e.err)
	return nil
}

// pair returns a Remote and its target: node 1, or, of two nodes with one replica, the node self.
func pair(t testing.TB, nodes int, self ring.NodeID) (*Remote, *engine, *loopback, *schema.Table) {
	t.Helper()
	s := testcluster.Catalog(t, testcluster.KeyOnly()...)
	var members []*ring.Node
	for i := range nodes {
		members = append(members, &ring.Node{ID: ring.NodeID(i + 1), State: ring.Normal,
			Tokens: []ring.Token{ring.Token(i) << 62}})
	}
	v := &view{self: self, schema: s, topology: ring.NewTopology(5, members)}
	e := &engine{page: []byte{0, 0}}
	l := &loopback{services: map[messaging.Verb]messaging.Service{}}
	Serve(l, NewLocal(e, v, nil))
	return NewRemote(1, l, v), e, l, s.Table("ks", "t")
}

func mutationOf(table *schema.Table, key string) *row.Mutation {
	m := sampleMutation(key)
	m.Table = table.StorageID
	return m
}

func TestRemoteReachesStorage(t *testing.T) {
	remote, e, l, table := pair(t, 1, 1)
	var err error
	remote.Apply(5, []*row.Mutation{mutationOf(table, "a"), mutationOf(table, "b")}, time.Second,
		func(e error) { err = e })
	if err != nil || len(e.applied) != 2 || e.applied[1] != "b" {
		t.Errorf("applied %q: %v", e.applied, err)
	}
	if e.durable {
		t.Error("the keyspace has durable_writes = false")
	}
	request := remote.AppendMutations(nil, 5, []*row.Mutation{mutationOf(table, "c")})
	remote.ApplyEncoded(coordinator.ForReadRepair, request, time.Second, func(e error) { err = e })
	remote.ApplyEncoded(coordinator.ForHint, request, time.Second, func(e error) { err = e })
	if len(l.verbs) != 3 || l.verbs[1] != messaging.VerbReadRepair || l.verbs[2] != messaging.VerbHint {
		t.Errorf("verbs %v", l.verbs)
	}
	cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("a")),
		Slices: []row.Slice{row.AllRows()}}
	var page string
	remote.Read(5, cmd, time.Second, func(p []byte, e error) { page, err = string(p), e })
	if page != string(e.page) || err != nil {
		t.Errorf("page %x: %v", page, err)
	}
	var digest row.Digest
	remote.Digest(5, cmd, time.Second, func(d row.Digest, e error) { digest, err = d, e })
	if digest != row.DigestOf(e.page) || err != nil {
		t.Errorf("digest %x: %v", digest, err)
	}
	truncateNow(remote, coordinator.Truncation{Table: table.StorageID, ID: 1}, func(e error) { err = e })
	if e.truncated != table.StorageID || err != nil {
		t.Errorf("truncated %d: %v", e.truncated, err)
	}
}

// TestServeRefusesForeignTokens sends a node requests for tokens that another node owns.
func TestServeRefusesForeignTokens(t *testing.T) {
	refusals, served, holder := 0, 0, ring.NodeID(0)
	for self := ring.NodeID(1); self <= 2; self++ {
		remote, e, _, table := pair(t, 2, self)
		count := func(err error) {
			var refusal *coordinator.NotReplica
			switch {
			case err == nil:
				served++
				holder = self
			case errors.As(err, &refusal) && refusal.Epoch == 5:
				refusals++
			default:
				t.Error(err)
			}
		}
		remote.Apply(5, []*row.Mutation{mutationOf(table, "a")}, time.Second, count)
		key := row.NewPartitionKey([]byte("a"))
		remote.Read(5, &row.ReadCommand{Table: table.StorageID, Key: key}, time.Second,
			func(_ []byte, err error) { count(err) })
		if applied := len(e.applied) > 0; applied != (served > 0 && self == holder) {
			t.Errorf("node %d: applied %q", self, e.applied)
		}
		// Each of the two nodes holds only a part of the ring.
		all := &row.ReadCommand{Table: table.StorageID, Range: row.KeyRange{Tokens: ring.FullRange()}}
		remote.Read(5, all, time.Second, func(_ []byte, err error) {
			var refusal *coordinator.NotReplica
			if !errors.As(err, &refusal) {
				t.Errorf("node %d reads the whole ring: %v", self, err)
			}
		})
		var failure *coordinator.ReplicaFailure
		remote.Read(5, &row.ReadCommand{Table: 9999, Key: key}, time.Second, func(_ []byte, err error) {
			if !errors.As(err, &failure) || failure.Reason != coordinator.FailureIncompatibleSchema {
				t.Errorf("an unknown table: %v", err)
			}
		})
	}
	if refusals != 2 || served != 2 {
		t.Errorf("of two nodes one holds the key: %d refusals, %d served", refusals, served)
	}
}

// TestServeRefusesNonsense sends malformed requests.
func TestServeRefusesNonsense(t *testing.T) {
	remote, e, l, _ := pair(t, 1, 1)
	for verb := messaging.VerbMutation; verb <= messaging.VerbTruncate; verb++ {
		var err error
		l.Request(1, verb, []byte{1, 0xFF, 0xFF, 0xFF, 0xFF}, time.Second,
			func(_ []byte, e error) { err = FromRemote(e) })
		if err == nil {
			t.Errorf("verb %d accepted a malformed message", verb)
		}
	}
	if len(e.applied) > 0 || e.truncated != 0 {
		t.Error("a malformed request reached storage")
	}
	_ = remote
}

// TestStorageErrors checks the conversion of storage's errors for coordinators.
func TestStorageErrors(t *testing.T) {
	for _, x := range []struct {
		err     error
		notSent bool
		reason  coordinator.FailureReason
	}{
		{failure.ErrOverloaded, true, 0},
		{failure.ErrDiskFull, true, 0},
		{&failure.TooManyTombstones{}, false, coordinator.FailureTooManyTombstones},
		{&failure.UnknownTable{}, false, coordinator.FailureIncompatibleSchema},
		{failure.ErrStopped, false, coordinator.FailureUnknown},
	} {
		remote, e, _, table := pair(t, 1, 1)
		e.err = x.err
		var got error
		remote.Apply(5, []*row.Mutation{mutationOf(table, "a")}, time.Second, func(err error) { got = err })
		var failure *coordinator.ReplicaFailure
		switch {
		case errors.Is(got, coordinator.ErrNotSent) != x.notSent:
			t.Errorf("%v: %v", x.err, got)
		case !x.notSent && (!errors.As(got, &failure) || failure.Reason != x.reason):
			t.Errorf("%v: %v", x.err, got)
		}
	}
}
