package replica

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/messaging"
	"cqld/ring"
)

func sampleUpdate() *coordinator.CounterUpdate {
	return &coordinator.CounterUpdate{
		ID: coordinator.RequestID{Node: 7, Incarnation: 1 << 60, Sequence: 300}, Epoch: 12, Consistency: ring.LocalQuorum,
		Mutation: sampleMutation("k"),
	}
}

func TestCounterUpdatesRoundTrip(t *testing.T) {
	payload := appendCounter(nil, sampleUpdate(), 1500*time.Millisecond)
	got, timeout, err := decodeCounter(payload)
	if err != nil || timeout != 1500*time.Millisecond || got.ID != sampleUpdate().ID || got.Epoch != 12 || got.Consistency != ring.LocalQuorum {
		t.Fatalf("%+v, %v, %v", got, timeout, err)
	}
	if again := appendCounter(nil, got, timeout); !reflect.DeepEqual(again, payload) {
		t.Errorf("%x, again %x", payload, again)
	}
	for cut := range payload {
		if _, _, err := decodeCounter(payload[:cut]); err == nil {
			t.Errorf("%d of %d bytes are no request", cut, len(payload))
		}
	}
}

// keeper leads and keeps what it is asked for, and answers with err.
type keeper struct {
	err       error
	update    *coordinator.CounterUpdate
	batch     []byte
	id        coordinator.RequestID
	forgotten []coordinator.RequestID
}

func (k *keeper) Lead(u *coordinator.CounterUpdate, _ time.Duration, done func(error)) {
	k.update = u
	done(k.err)
}

func (k *keeper) KeepBatch(id coordinator.RequestID, encoded []byte, done func(error)) {
	k.id, k.batch = id, encoded
	done(k.err)
}

func (k *keeper) ForgetBatches(ids []coordinator.RequestID, done func(error)) {
	k.forgotten = ids
	done(k.err)
}

// TestOutcomesArrive: a coordinator is told what its leader was, by value.
func TestOutcomesArrive(t *testing.T) {
	k := &keeper{}
	l := &loopback{services: map[messaging.Verb]messaging.Service{}}
	ServeCounters(l, k)
	ServeBatches(l, k)
	r := NewRemote(2, l, &view{})
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
		r.Lead(sampleUpdate(), time.Second, func(err error) { got = err })
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%#v arrived as %#v", want, got)
		}
		if k.update.ID != sampleUpdate().ID || string(k.update.Mutation.Key.Bytes) != "k" {
			t.Fatalf("the update arrived as %+v", k.update)
		}
	}
	k.err = coordinator.ErrNoReply
	r.Lead(sampleUpdate(), time.Second, func(err error) {
		if err == nil || errors.Is(err, coordinator.ErrNotSent) {
			t.Errorf("what may have been counted arrived as %v", err)
		}
	})
}

func TestBatchesArrive(t *testing.T) {
	k := &keeper{}
	l := &loopback{services: map[messaging.Verb]messaging.Service{}}
	ServeBatches(l, k)
	r := NewRemote(2, l, &view{})
	id := coordinator.RequestID{Node: 3, Incarnation: 4, Sequence: 5}
	r.KeepBatch(id, []byte("batch"), time.Second, func(err error) {
		if err != nil || k.id != id || string(k.batch) != "batch" {
			t.Errorf("%v, %+v, %q", err, k.id, k.batch)
		}
	})
	ids := []coordinator.RequestID{id, {Node: 3, Incarnation: 4, Sequence: 6}}
	r.ForgetBatches(ids, time.Second, func(err error) {
		if err != nil || !reflect.DeepEqual(k.forgotten, ids) {
			t.Errorf("%v, %+v", err, k.forgotten)
		}
	})
	k.err = &coordinator.Overloaded{What: "full"}
	r.KeepBatch(id, nil, time.Second, func(err error) {
		if !errors.Is(err, coordinator.ErrNotSent) {
			t.Errorf("a refusal arrived as %v", err)
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
	f.Fuzz(func(t *testing.T, payload []byte) {
		err := decodeOutcome(payload)
		if err == nil && (len(payload) != 1 || payload[0] != outcomeDone) {
			t.Errorf("%x says that all is well", payload)
		}
	})
}
