package entity_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/replica"
	"cqld/row"
	"cqld/table/entity"
)

type slow struct{ *replica.Local }

func pause(f func()) { time.AfterFunc(time.Duration(rand.IntN(20))*time.Millisecond, f) }

func (s slow) Prepare(epoch uint64, b, previous coordinator.Ballot, cmd *row.ReadCommand, x time.Duration, done func(*coordinator.Promise, error)) {
	pause(func() { s.Local.Prepare(epoch, b, previous, cmd, x, done) })
}
func (s slow) Accept(epoch uint64, p *coordinator.Proposal, x time.Duration, done func(coordinator.Ballot, error)) {
	q := *p
	pause(func() { s.Local.Accept(epoch, &q, x, done) })
}
func (s slow) Commit(epoch uint64, p *coordinator.Proposal, x time.Duration, done func(error)) {
	q := *p
	pause(func() { s.Local.Commit(epoch, &q, x, done) })
}

func TestZZ(t *testing.T) {
	slowReplicas = func(l *replica.Local) coordinator.Replica { return slow{l} }
	r := newTestRing(t, 4)
	r.create("Things")
	counts := map[string]int{}
	var mu sync.Mutex
	began := time.Now()
	var worst time.Duration
	for round := range 40 {
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				b := time.Now()
				_, err := r.nodes[i%4].store.Apply(context.Background(), account, "things", []entity.Operation{op(entity.Insert, "p", fmt.Sprint(round), number("by", int64(i)))})
				mu.Lock()
				defer mu.Unlock()
				worst = max(worst, time.Since(b))
				counts[fmt.Sprintf("%T %s", err, code(err))]++
			})
		}
		wg.Wait()
	}
	t.Log(time.Since(began), worst, counts)
}
