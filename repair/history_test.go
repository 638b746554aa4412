package repair

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
	"cqld/internal/testclock"
	"cqld/ring"
	"cqld/storage"
)

// edgeTokens returns the tokens at which spans may begin and end in the test.
func edgeTokens() []ring.Token {
	return []ring.Token{ring.MinToken, ring.MinToken + 1, -7, -1, 0, 1, 2, 500, ring.MaxToken - 1, ring.MaxToken}
}

// TestRepairedIsAFunctionOfTokens adds and retains random ranges, and compares with a map of tokens.
func TestRepairedIsAFunctionOfTokens(t *testing.T) {
	tokens := edgeTokens()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		disk := vfs.NewMem()
		engine := openEngine(t, disk)
		r, err := OpenHistory(engine, &testclock.Clock{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := map[ring.Token]int64{}
		for range 12 {
			in := ring.Range{Start: tokens[rng.IntN(len(tokens))], End: tokens[rng.IntN(len(tokens))]}
			switch until := rng.Int64N(5); {
			case rng.IntN(4) > 0:
				if err := r.Add(7, in, until); err != nil {
					t.Fatal(err)
				}
				for _, at := range tokens[1:] {
					if in.Contains(at) {
						if old, known := want[at]; !known || until > old {
							want[at] = until
						}
					}
				}
			default:
				if err := r.Retain(7, []ring.Range{in}); err != nil {
					t.Fatal(err)
				}
				for _, at := range tokens[1:] {
					if !in.Contains(at) {
						delete(want, at)
					}
				}
			}
		}
		if err := engine.Close(); err != nil {
			t.Fatal(err)
		}
		engine = openEngine(t, disk)
		if r, err = OpenHistory(engine, &testclock.Clock{}, 0); err != nil {
			t.Fatal(err)
		}
		for _, at := range tokens[1:] {
			until, known := want[at]
			if !known {
				until = neverRepaired
			}
			if got := r.Before(7, at); got != until {
				t.Errorf("seed %d: token %v is repaired until %d, not %d", seed, at, got, until)
			}
			if got := r.Before(8, at); got != neverRepaired {
				t.Errorf("another table is repaired until %d", got)
			}
		}
		if err := engine.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRepairedIsBounded(t *testing.T) {
	var spans []repairedSpan
	for i := range uint64(3 * repairedSpansMax) {
		spans = append(spans, repairedSpan{3 * i, 3*i + 2 + i%2, int64(i % 10)})
	}
	before := append([]repairedSpan(nil), spans...)
	spans = boundSpans(spans)
	if len(spans) > repairedSpansMax {
		t.Fatalf("%d spans", len(spans))
	}
	at := 0
	for _, s := range spans {
		for at < len(before) && before[at].upper <= s.lower {
			at++
		}
		for k := at; k < len(before) && before[k].lower < s.upper; k++ {
			if s.until > before[k].until {
				t.Fatalf("%v claims more than %v", s, before[k])
			}
		}
	}
}

// TestSinceIsTheEarliestTimeOfARange checks that a range counts as repaired only up to the earliest time of its parts.
func TestSinceIsTheEarliestTimeOfARange(t *testing.T) {
	engine := openEngine(t, vfs.NewMem())
	t.Cleanup(func() { engine.Close() })
	r, err := OpenHistory(engine, &testclock.Clock{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := func(want int64, tokens ring.Range) {
		t.Helper()
		if got := r.Since(7, tokens); got != want {
			t.Errorf("%v is repaired since %d, want %d", tokens, got, want)
		}
	}
	at(neverRepaired, ring.Range{Start: 10, End: 20})
	for until, tokens := range map[int64]ring.Range{100: {Start: 0, End: 20}, 50: {Start: 20, End: 40}} {
		if err := r.Add(7, tokens, until); err != nil {
			t.Fatal(err)
		}
	}
	at(100, ring.Range{Start: 10, End: 20})
	at(50, ring.Range{Start: 10, End: 30})
	at(neverRepaired, ring.Range{Start: 30, End: 41})
	at(neverRepaired, ring.FullRange())
}

func openEngine(t *testing.T, disk *vfs.MemFS) *storage.Engine {
	t.Helper()
	engine, err := storage.Open(storage.Options{Dir: "data", FS: disk, Clock: stoppedClock{}, Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// stoppedClock is a clock that is never read.
type stoppedClock struct{ env.Clock }

// TestStorageSeesSettledAdditions checks that additions become visible to storage after the settling time, even if
// additions never pause, that removals are visible immediately, and that the number of versions is bounded.
func TestStorageSeesSettledAdditions(t *testing.T) {
	const settling = time.Minute
	engine := openEngine(t, vfs.NewMem())
	t.Cleanup(func() { engine.Close() })
	clock := &testclock.Clock{}
	open := func() *History {
		h, err := OpenHistory(engine, clock, settling)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := open()
	seen := func() int64 {
		if f := h.Of(1); f != nil {
			return f(5)
		}
		return neverRepaired
	}
	began := clock.Monotonic()
	for i := range int64(1000) {
		if err := h.Add(1, ring.Range{Start: 0, End: 10}, i); err != nil {
			t.Fatal(err)
		}
		if got := h.Before(1, 5); got != i {
			t.Fatalf("addition %d: repaired until %d", i, got)
		}
		// The addition of second n is repaired until n.
		age := int64((clock.Monotonic()-began)/time.Second) - seen()
		if i >= 2*60 && (age < 60 || age > 60+60/versionsEach) || i < 60 && seen() != neverRepaired {
			t.Fatalf("after %d s, storage sees the addition of second %d", i, seen())
		}
		if n := len((*h.tables.Load())[1].versions); n > versionsEach+3 {
			t.Fatalf("%d versions", n)
		}
		clock.Advance(time.Second)
	}
	clock.Advance(settling)
	if seen() != 999 {
		t.Errorf("storage sees %d after the settling time", seen())
	}
	if h = open(); seen() != neverRepaired {
		t.Errorf("storage sees %d at a start", seen())
	}
	if clock.Advance(settling); seen() != 999 {
		t.Errorf("storage sees %d a settling time after the start", seen())
	}
	if err := h.Retain(1, []ring.Range{{Start: 0, End: 7}}); err != nil {
		t.Fatal(err)
	}
	if seen() != neverRepaired {
		t.Errorf("storage sees %d after a removal", seen())
	}
	if clock.Advance(settling); seen() != 999 || h.Of(1)(8) != neverRepaired {
		t.Errorf("storage sees %d and %d a settling time after a removal", seen(), h.Of(1)(8))
	}
}
