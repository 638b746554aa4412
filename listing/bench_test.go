package listing

import (
	"fmt"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/ring"
)

// promptRing answers requests in their order, with pages of 20 keys. Answers arrive after Page has returned, as with a
// transport or with workers.
type promptRing struct {
	*fakeRing
	answers *[]func()
}

func (f promptRing) Page(to ring.NodeID, _ coordinator.Trace, _ uint64, q *PageRequest, _ time.Duration,
	done func(*Page, error)) {
	keys := f.nodes[to].keys
	page := &Page{Keys: make([][]byte, 0, 20)}
	for _, key := range keys {
		if !q.Span.contains([]byte(key)) {
			continue
		}
		if page.More = len(page.Keys) == 20 || len(page.Keys) == q.Limit; page.More {
			break
		}
		page.Scanned, page.Last = page.Scanned+1, []byte(key)
		page.Keys = append(page.Keys, page.Last)
	}
	*f.answers = append(*f.answers, func() { done(page, nil) })
}

// stillClock never moves, and its timers never fire.
type stillClock struct{}

type noTimer struct{}

func (noTimer) Stop() bool                               { return true }
func (stillClock) Now() time.Time                        { return time.Unix(1, 0) }
func (stillClock) Monotonic() time.Duration              { return time.Second }
func (stillClock) After(time.Duration, func()) env.Timer { return noTimer{} }

// BenchmarkListing lists 100 keys of three nodes at QUORUM, in ten pages.
func BenchmarkListing(b *testing.B) {
	ringOf, table := newFakeRing(b, 3, 3, func() *fakeNode {
		n := &fakeNode{}
		for i := range 100 {
			n.keys = append(n.keys, fmt.Sprintf("%03d", i))
		}
		return n
	})
	f := promptRing{ringOf, new([]func())}
	c := coordinator.New(coordinator.Options{View: f, Replicas: f, Clock: stillClock{}})
	l := New(Options{Coordinator: c, View: f, Replicas: f, Clock: stillClock{}})
	req := &Request{Table: table, Consistency: ring.Quorum, Timeout: time.Minute, Grow: func(int) bool { return true }}
	b.ReportAllocs()
	for b.Loop() {
		found := 0
		l.List(req, func(p *Result, err error) {
			if err != nil {
				b.Fatal(err)
			}
			found = len(p.Keys)
		})
		for i := 0; i < len(*f.answers); i++ {
			(*f.answers)[i]()
		}
		*f.answers = (*f.answers)[:0]
		if found != 100 {
			b.Fatal(found)
		}
	}
}
