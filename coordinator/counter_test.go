package coordinator

import (
	"errors"
	"math/rand/v2"
	"testing"

	"cqld/row"
)

// TestNamesCountOnce: whatever comes how often in which order, what is entered is entered once, and
// nothing that was forgotten is entered again.
func TestNamesCountOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, limit := range []int{1, 8, 1000} {
		w := newCounterWindows(limit)
		entered := map[RequestID]int{}
		answers := 0
		asked := 5000
		for i := range asked {
			id := RequestID{Node: 1, Incarnation: uint64(rng.IntN(2)), Sequence: uint64(1 + max(0, i/3-rng.IntN(20)))}
			if done := w.enter(id, func(error) { answers++ }); done != nil {
				entered[id]++
				done(nil)
			}
		}
		for id, n := range entered {
			if n != 1 {
				t.Errorf("limit %d: %+v was entered %d times", limit, id, n)
			}
		}
		if answers != asked || len(entered) < 100 {
			t.Errorf("limit %d: %d answers to %d, %d entered", limit, answers, asked, len(entered))
		}
		for _, x := range w.windows {
			if len(x.seen) > limit {
				t.Errorf("limit %d: %d names are kept", limit, len(x.seen))
			}
		}
	}
}

// TestTheSameMessageWaitsForTheFirst: its answer is the first one's, when that is known.
func TestTheSameMessageWaitsForTheFirst(t *testing.T) {
	w := newCounterWindows(10)
	id := RequestID{Node: 1, Incarnation: 1, Sequence: 1}
	var got []error
	note := func(err error) { got = append(got, err) }
	done := w.enter(id, note)
	if w.enter(id, note) != nil || len(got) != 0 {
		t.Fatal("the second was not kept waiting")
	}
	failure := &WriteTimeout{Type: WriteCounter}
	done(failure)
	if w.enter(id, note) != nil || len(got) != 3 || !errors.Is(got[1], failure) || !errors.Is(got[2], failure) {
		t.Errorf("answers %v", got)
	}
	if w.enter(RequestID{}, note) == nil {
		t.Error("what has no name is not entered")
	}
}

// FuzzBatch: whatever is kept as a batch, reading it says so or gives what can be written again.
func FuzzBatch(f *testing.F) {
	m, r := &row.Mutation{}, row.NewRow()
	m.Reset(7, row.NewPartitionKey([]byte("k")))
	r.Clustering, r.Cells = []byte("a"), []row.Cell{{Column: 1, Value: []byte("one")}, {Column: 2, Value: []byte("two")}}
	m.AddRow(r)
	f.Add(appendBatch(nil, 5, 6, []*row.Mutation{m}))
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		batch, err := decodeBatch(RequestID{}, b)
		if err != nil {
			return
		}
		again, err := decodeBatch(RequestID{}, appendBatch(nil, batch.Created, batch.Delay, batch.Mutations))
		if err != nil || len(again.Mutations) != len(batch.Mutations) {
			t.Errorf("%+v became %+v: %v", batch, again, err)
		}
	})
}
