package counters

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
)

// loopback is a transport whose requests are answered by its own services at once.
type loopback struct {
	messaging.Transport
	services map[messaging.Verb]messaging.Service
}

func (l *loopback) Handle(s messaging.Service) { l.services[s.Verb] = s }

func (l *loopback) Request(_ ring.NodeID, verb messaging.Verb, payload []byte, _ time.Duration, reply messaging.Reply) {
	l.services[verb].Handler(1, payload, func(answer []byte, err error) { reply(answer, err) })
}

func sampleMutation(key string) *row.Mutation {
	m, r := &row.Mutation{}, row.NewRow()
	m.Reset(1025, row.NewPartitionKey([]byte(key)))
	r.Clustering, r.Cells = []byte("c"), []row.Cell{{Column: 1, Value: []byte("12345678")}}
	m.AddRow(r)
	return m
}

func sampleUpdate() *Update {
	return &Update{
		ID: coordinator.RequestID{Node: 7, Incarnation: 1 << 60, Sequence: 300}, Epoch: 12,
		Consistency: ring.LocalQuorum,
		Mutation:    sampleMutation("k"),
	}
}

func TestCounterUpdatesRoundTrip(t *testing.T) {
	payload := appendCounter(nil, sampleUpdate(), 1500*time.Millisecond)
	got, timeout, err := decodeCounter(payload)
	if err != nil || timeout != 1500*time.Millisecond || got.ID != sampleUpdate().ID || got.Epoch != 12 ||
		got.Consistency != ring.LocalQuorum {
		t.Fatalf("%+v, %v, %v", got, timeout, err)
	}
	if again := appendCounter(nil, got, timeout); !reflect.DeepEqual(again, payload) {
		t.Errorf("%x, again %x", payload, again)
	}
	for cut := range payload {
		if _, _, err := decodeCounter(payload[:cut]); err == nil {
			t.Errorf("%d of %d bytes are not a request", cut, len(payload))
		}
	}
}

// keeper leads updates and answers with err.
type keeper struct {
	err    error
	update *Update
}

func (k *keeper) Lead(u *Update, _ time.Duration, done func(error)) {
	k.update = u
	done(k.err)
}

// TestCounterErrorRoundTrip shows that a coordinator receives the error of its leader, with its values.
func TestCounterErrorRoundTrip(t *testing.T) {
	k := &keeper{}
	l := &loopback{services: map[messaging.Verb]messaging.Service{}}
	serve(l, k)
	r := NewClient(l)
	for _, want := range []error{
		nil,
		&coordinator.Unavailable{Consistency: ring.Quorum, Required: 3, Alive: 2},
		&coordinator.WriteTimeout{Consistency: ring.All, Received: 2, BlockFor: 4, Type: coordinator.WriteCounter},
		&coordinator.WriteFailure{Consistency: ring.Two, Received: 1, BlockFor: 2, Type: coordinator.WriteCounter,
			Failures: []coordinator.NodeFailure{{Node: 9, Reason: coordinator.FailureTimeout}}},
		&coordinator.NotReplica{Epoch: 5},
		&coordinator.Overloaded{What: "too much"},
		&coordinator.ReplicaFailure{Reason: coordinator.FailureTooManyTombstones, Message: "no"},
	} {
		k.err = want
		var got error
		r.Lead(2, sampleUpdate(), time.Second, func(err error) { got = err })
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%#v arrived as %#v", want, got)
		}
		if k.update.ID != sampleUpdate().ID || string(k.update.Mutation.Key.Bytes) != "k" {
			t.Fatalf("the update arrived as %+v", k.update)
		}
	}
	k.err = coordinator.ErrNoReply
	r.Lead(2, sampleUpdate(), time.Second, func(err error) {
		if err == nil || errors.Is(err, coordinator.ErrNotSent) {
			t.Errorf("an unknown outcome arrived as %v", err)
		}
	})
}

// reader leads updates, and reads something for each.
type reader struct{ err error }

func (l reader) Lead(u *Update, _ time.Duration, done func(error)) {
	if u.Trace != nil {
		u.Trace.Read(coordinator.Reads{Rows: 1, Commands: 1, Bytes: 300})
		u.Trace.Read(coordinator.Reads{Tombstones: 2, Partitions: 1, Commands: 1, Bytes: 7})
	}
	done(l.err)
}

// TestLeaderReadRoundTrip checks that the reply to an observed update contains what the leader has read, and that other
// replies do not.
func TestLeaderReadRoundTrip(t *testing.T) {
	l := &loopback{services: map[messaging.Verb]messaging.Service{}}
	serve(l, reader{})
	observation := new(coordinator.Observation)
	update := sampleUpdate()
	update.Trace = observation.Observe(nil)
	NewClient(l).Lead(2, update, time.Second, func(err error) {
		want := coordinator.Reads{Rows: 1, Tombstones: 2, Partitions: 1, Commands: 2, Bytes: 307}
		if got := observation.TakeReads(); err != nil || got != want {
			t.Errorf("read %+v, %v, want %+v", got, err, want)
		}
	})
	if nodes := observation.Nodes(); len(nodes) != 1 || nodes[0] != 2 {
		t.Errorf("replicas %v, want the leader", nodes)
	}
	l.services[messaging.VerbCounter].Handler(1, appendCounter(nil, sampleUpdate(), time.Second),
		func(answer []byte, err error) {
			if err != nil || len(answer) != 1 || answer[0] != outcomeDone {
				t.Errorf("an update that is not observed is answered by %x, %v", answer, err)
			}
		})
}

func FuzzDecodeCounter(f *testing.F) {
	f.Add(appendCounter(nil, sampleUpdate(), time.Second))
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, payload []byte) {
		u, timeout, err := decodeCounter(payload)
		if err != nil {
			return
		}
		if _, _, err := decodeCounter(appendCounter(nil, u, timeout)); err != nil {
			t.Errorf("%+v cannot be read again: %v", u, err)
		}
	})
}

func FuzzDecodeOutcome(f *testing.F) {
	seed, _ := appendOutcome(nil, &coordinator.WriteFailure{Failures: []coordinator.NodeFailure{{Node: 1}}})
	f.Add(seed)
	f.Add([]byte{outcomeDone})
	f.Add(appendReads([]byte{outcomeDone}, coordinator.Reads{Rows: 1, Tombstones: 2, Partitions: 3, Commands: 4,
		Bytes: 500}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		reads, err := decodeOutcome(payload)
		if err == nil && payload[0] != outcomeDone {
			t.Errorf("%x reports success", payload)
		}
		if err != nil && reads != (coordinator.Reads{}) {
			t.Errorf("%x fails and has read %+v", payload, reads)
		}
		if again, err := decodeOutcome(appendReads([]byte{outcomeDone}, reads)); err != nil || again != reads {
			t.Errorf("%+v, again %+v, %v", reads, again, err)
		}
	})
}
