//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/azuretables/client"
)

// TestTablesRacingInserts inserts the same keys at all nodes concurrently: one insert returns 201, all others 409.
func TestTablesRacingInserts(t *testing.T) {
	a := askTables(t, sharedRing(t))
	a.create("raceInserts")
	const rounds, racers = 25, 12
	doubt := int64(0)
	for round := range rounds {
		var wg sync.WaitGroup
		statuses := make([]int, racers)
		for i := range racers {
			wg.Go(func() {
				r, err := a.nodes[i%4].Do(t.Context(), insert("raceInserts",
					fmt.Sprintf(`{"PartitionKey":"p%d","RowKey":"r%d","by":%d}`, round%3, round, i)))
				if err == nil {
					statuses[i] = r.Status
				}
			})
		}
		wg.Wait()
		winner := -1
		for i, s := range statuses {
			if s == 500 {
				doubt++
			} else if s == 204 && winner < 0 {
				winner = i
			} else if s != 409 {
				t.Fatalf("round %d: %v", round, statuses)
			}
		}
		if winner < 0 {
			if !slices.Contains(statuses, 500) {
				t.Fatalf("round %d: no insert succeeded: %v", round, statuses)
			}
			continue // the insert that succeeded got an error
		}
		for node := range a.nodes {
			r := a.must(node, get("raceInserts", fmt.Sprint("p", round%3), fmt.Sprint("r", round)), 200)
			if !strings.Contains(string(r.Body), fmt.Sprintf(`"by":%d}`, winner)) {
				t.Fatalf("round %d: %d won, node %d has %s", round, winner, node+1, r.Body)
			}
		}
	}
	fewInDoubt(t, doubt, rounds*racers)
}

// TestTablesRacingUpdates counts by reading and updating with If-Match: no acknowledged increment is lost, and no
// refused one is applied.
func TestTablesRacingUpdates(t *testing.T) {
	a := askTables(t, sharedRing(t))
	a.create("raceUpdates")
	a.must(0, insert("raceUpdates", `{"PartitionKey":"p","RowKey":"counter","n":0}`), 204)
	var done, refused, doubt atomic.Int64
	var wg sync.WaitGroup
	const each = 15
	for i := range 8 {
		wg.Go(func() {
			for mine := 0; mine < each && t.Context().Err() == nil; {
				r, err := a.nodes[i%4].Do(t.Context(), get("raceUpdates", "p", "counter"))
				if err != nil || r.Status != 200 {
					t.Errorf("get: %v %v", r, err)
					return
				}
				var e struct{ N int }
				if err := json.Unmarshal(r.Body, &e); err != nil {
					t.Error(err)
					return
				}
				u, err := a.nodes[(i+1)%4].Do(t.Context(),
					client.Request{Method: "PUT", Path: client.EntityPath("raceUpdates", "p", "counter"),
						Body: fmt.Appendf(nil, `{"n":%d}`, e.N+1), IfMatch: r.Header.Get("ETag")})
				switch {
				case err != nil:
					t.Error(err)
					return
				case u.Status == 204:
					mine++
					done.Add(1)
				case u.Status == 412:
					refused.Add(1)
				case timedOut(u):
					doubt.Add(1)
				default:
					t.Errorf("update: %v", u.Err(204, 412))
					return
				}
			}
		})
	}
	wg.Wait()
	var e struct{ N int64 }
	if r := a.must(3, get("raceUpdates", "p", "counter"), 200); json.Unmarshal(r.Body, &e) != nil ||
		e.N < done.Load() || e.N > done.Load()+doubt.Load() {
		t.Errorf("%d updates were acknowledged, %d refused, %d in doubt; the counter is %s", done.Load(),
			refused.Load(), doubt.Load(), r.Body)
	}
	fewInDoubt(t, doubt.Load(), done.Load())
	t.Logf("%d updates, %d refused, %d in doubt", done.Load(), refused.Load(), doubt.Load())
}

// timedOut reports whether the outcome of a change is unknown, which is returned only if other changes overtook it.
func timedOut(r *client.Response) bool { return r.Status == 500 && r.Code() == "OperationTimedOut" }

// fewInDoubt permits some changes with an unknown outcome, as on a machine that is busy with other work: half as many
// as were acknowledged, because an overwritten change cannot be distinguished from one that was not made.
func fewInDoubt(t *testing.T, doubt, done int64) {
	t.Helper()
	if 2*doubt > done {
		t.Errorf("%d changes ended in doubt, %d were acknowledged", doubt, done)
	}
}

// TestTablesRacingBatches makes writers replace the same rows by transactions, and reads them: all rows are always of
// one writer.
func TestTablesRacingBatches(t *testing.T) {
	a := askTables(t, sharedRing(t))
	a.create("raceBatches")
	const rows = 12
	batch := func(by int) client.Request {
		var changes []client.Change
		for r := range rows {
			changes = append(changes, client.Change{Method: "PUT", PartitionKey: "p", RowKey: fmt.Sprintf("r%02d", r),
				Body: fmt.Appendf(nil, `{"by":%d}`, by)})
		}
		return client.Transaction("raceBatches", changes)
	}
	if s := a.must(0, batch(0), 202).Statuses(); len(s) != rows {
		t.Fatalf("the first transaction returned %v", s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var writes, reads, doubt atomic.Int64
	const least = 10 // of each kind, however busy the machine is
	began := time.Now()
	enough := func() bool {
		return ctx.Err() != nil || time.Since(began) > 4*time.Second && writes.Load() >= least && reads.Load() >= least
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := 1; !enough() && n <= 200; n++ {
				r, err := a.nodes[i].Do(t.Context(), batch(i*1000+n))
				switch {
				case err != nil:
					t.Error(err)
					return
				case timedOut(r):
					doubt.Add(1)
				case r.Status != 202 || len(r.Statuses()) != rows || r.Statuses()[0] != 204:
					t.Errorf("transaction: %v", r.Err())
					return
				default:
					writes.Add(1)
				}
			}
		})
		wg.Go(func() {
			for !enough() {
				r, err := a.nodes[i].Do(t.Context(), filtered("raceBatches", "PartitionKey eq 'p'", ""))
				if err != nil || r.Status != 200 {
					t.Errorf("query: %v %+v", err, r)
					return
				}
				var page struct{ Value []struct{ By int } }
				if err := json.Unmarshal(r.Body, &page); err != nil || len(page.Value) != rows {
					t.Errorf("%d rows: %v", len(page.Value), err)
					return
				}
				for _, e := range page.Value {
					if e.By != page.Value[0].By {
						t.Errorf("rows of two transactions: %s", r.Body)
						return
					}
				}
				reads.Add(1)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	if reads.Load() < least || writes.Load() < least {
		t.Errorf("%d transactions, %d reads", writes.Load(), reads.Load())
	}
	// The number with an unknown outcome is not bounded: each overwrites the rows of the one before it.
	t.Logf("%d transactions, %d in doubt, %d reads", writes.Load(), doubt.Load(), reads.Load())
}
