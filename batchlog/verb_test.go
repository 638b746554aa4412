package batchlog

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/messaging"
	"cqld/ring"
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

// recorder is a keeper that answers with err.
type recorder struct {
	err       error
	batch     []byte
	id        coordinator.RequestID
	forgotten []coordinator.RequestID
}

func (k *recorder) Keep(id coordinator.RequestID, encoded []byte, done func(error)) {
	k.id, k.batch = id, encoded
	done(k.err)
}

func (k *recorder) Forget(ids []coordinator.RequestID, done func(error)) {
	k.forgotten = ids
	done(k.err)
}

func TestBatchMessageRoundTrip(t *testing.T) {
	k := &recorder{}
	l := &loopback{services: map[messaging.Verb]messaging.Service{}}
	serve(l, k)
	c := NewClient(l)
	id := coordinator.RequestID{Node: 3, Incarnation: 4, Sequence: 5}
	answers := 0
	c.Keep(2, nil, id, []byte("batch"), time.Second, func(err error) {
		answers++
		if err != nil || k.id != id || string(k.batch) != "batch" {
			t.Errorf("%v, %+v, %q", err, k.id, k.batch)
		}
	})
	ids := []coordinator.RequestID{id, {Node: 3, Incarnation: 4, Sequence: 6}}
	c.Forget(2, ids, time.Second, func(err error) {
		answers++
		if err != nil || !reflect.DeepEqual(k.forgotten, ids) {
			t.Errorf("%v, %+v", err, k.forgotten)
		}
	})
	k.err = &coordinator.Overloaded{What: "full"}
	c.Keep(2, nil, id, nil, time.Second, func(err error) {
		answers++
		if !errors.Is(err, coordinator.ErrNotSent) {
			t.Errorf("a refusal arrived as %v", err)
		}
	})
	if answers != 3 {
		t.Errorf("%d answers", answers)
	}
}
