package messaging

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"cqld/internal/wire"
)

func TestEventsReturnWithReply(t *testing.T) {
	a, _ := pair(t, func(b *StreamTransport) {
		Register(b,
			Service{Verb: VerbRead, Name: "read", Blocking: true, Call: func(c Call, respond Respond) {
				c.Trace.Add("working on " + string(c.Payload))
				respond([]byte("page"), nil)
			}},
			Service{Verb: VerbMutation, Name: "mutation", Call: func(c Call, respond Respond) {
				respond(nil, &RemoteError{Code: 7, Message: "no"})
			}})
	})
	type outcome struct {
		payload string
		err     error
	}
	ask := func(verb Verb) (activities []string, o outcome) {
		events, answer := make(chan []TraceEvent, 1), make(chan outcome, 1)
		a.RequestTraced(2, verb, []byte("x"), time.Minute, func(e []TraceEvent) { events <- e },
			func(payload []byte, err error) {
				answer <- outcome{string(payload), err}
			})
		o = <-answer
		last := time.Duration(0)
		for _, e := range <-events {
			activities = append(activities, e.Activity)
			if e.Elapsed < last || e.Elapsed > time.Minute {
				t.Errorf("event %+v after %v", e, last)
			}
			last = e.Elapsed
		}
		return activities, o
	}
	if got, o := ask(VerbRead); !reflect.DeepEqual(got,
		[]string{"Received read", "working on x", "Sending answer to read"}) || o.payload != "page" || o.err != nil {
		t.Errorf("read: %q, %+v", got, o)
	}
	var remote *RemoteError
	if got, o := ask(VerbMutation); !reflect.DeepEqual(got,
		[]string{"Received mutation", "Sending answer to mutation"}) || !errors.As(o.err, &remote) || remote.Code != 7 {
		t.Errorf("mutation: %q, %+v", got, o)
	}
	traced := false
	a.RequestTraced(9, VerbRead, nil, time.Minute, func(e []TraceEvent) { traced = e == nil }, func([]byte, error) {})
	if !traced {
		t.Error("a request that was not sent has no end")
	}
}

func TestTraceIsBounded(t *testing.T) {
	trace := newTrace(monotonicClock{time.Now()})
	for range 2 * traceEventsMax {
		trace.Add("event")
	}
	if len(trace.events) != traceEventsMax {
		t.Errorf("%d events", len(trace.events))
	}
	trace = newTrace(monotonicClock{time.Now()})
	for range 20 {
		trace.Add(strings.Repeat("x", 1000))
	}
	if trace.bytes > traceBytesMax {
		t.Errorf("%d bytes", trace.bytes)
	}
	var none *Trace
	none.Add("nothing is collected")
}

// FuzzTrace decodes what a peer may send as the events of an answer.
func FuzzTrace(f *testing.F) {
	trace := newTrace(monotonicClock{time.Now()})
	trace.Add("one")
	trace.Add("")
	f.Add(trace.appendTo(nil))
	f.Add([]byte{0xff, 0xff, 0x03})
	f.Fuzz(func(t *testing.T, b []byte) {
		c := wire.NewCursor(b)
		events := consumeTrace(&c)
		if c.Err() != nil {
			return
		}
		if len(events) > traceEventsMax {
			t.Fatalf("%d events", len(events))
		}
		again := (&Trace{events: events}).appendTo(nil)
		c = wire.NewCursor(again)
		if got := consumeTrace(&c); c.Err() != nil || len(got) != len(events) || len(got) > 0 &&
			!reflect.DeepEqual(got, events) {
			t.Errorf("%+v became %+v, %v", events, got, c.Err())
		}
	})
}
