package udf

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"cqld/schema"
)

// TestRolesAlternate starts a storm of one role's compilations. Another role's is the next one, although it comes
// last, and is not refused, although the first role's are.
func TestRolesAlternate(t *testing.T) {
	var mu sync.Mutex
	var compiled []string
	started, proceed := make(chan struct{}), make(chan struct{})
	c := testCache(func(f *schema.Function) (program, error) {
		mu.Lock()
		compiled = append(compiled, f.Body)
		first := len(compiled) == 1
		mu.Unlock()
		if first {
			close(started)
			<-proceed
		}
		return fake(1), nil
	})
	var wg sync.WaitGroup
	request := func(role, body string, want error) {
		wg.Go(func() {
			if _, err := c.get(context.Background(), role, function(body)); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", body, err, want)
			}
		})
	}
	waiting := func(role string) int {
		c.turns.mu.Lock()
		defer c.turns.mu.Unlock()
		return len(c.turns.queues[role])
	}
	request("storm", "storm 0", nil)
	<-started
	for i := 1; i < waitingMax; i++ {
		request("storm", fmt.Sprint("storm ", i), nil)
	}
	for waiting("storm") < waitingMax-1 {
		runtime.Gosched()
	}
	for range 10 {
		if _, err := c.get(context.Background(), "storm", function("too many")); !errors.Is(err, errBusy) {
			t.Errorf("%v, want %v", err, errBusy)
		}
	}
	request("other", "other 1", nil)
	request("other", "other 2", nil)
	for waiting("other") < 2 {
		runtime.Gosched()
	}
	close(proceed)
	wg.Wait()
	last := max(slices.Index(compiled, "other 1"), slices.Index(compiled, "other 2"))
	if len(compiled) != waitingMax+2 || last > 4 {
		t.Errorf("the other role's functions are number %d and less of %d", last+1, len(compiled))
	}
	if s := c.compilations(); s.Ended != waitingMax+2 || s.Refused != 10 || s.Running != 0 {
		t.Errorf("%+v", s)
	}
}

// TestTurnsAreNotLost cancels requests while turns pass: each turn is used by one request, and none is lost.
func TestTurnsAreNotLost(t *testing.T) {
	var s turns
	var wg sync.WaitGroup
	var mu sync.Mutex // held by the request whose turn it is
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if i%3 == 0 {
				go cancel()
			}
			if s.wait(ctx, fmt.Sprint(i%7)) != nil {
				return
			}
			if !mu.TryLock() {
				t.Error("two turns at the same time")
				return
			}
			mu.Unlock()
			s.next()
		})
	}
	wg.Wait()
	if s.busy || len(s.order) != 0 || len(s.queues) != 0 {
		t.Errorf("busy %t, %v wait", s.busy, s.order)
	}
}
