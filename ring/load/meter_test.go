package load

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/internal/cputime"
	"cqld/internal/testclock"
	"cqld/ring"
	"cqld/schema"
)

// everyRange is a node that holds all ranges.
func everyRange(int) bool { return true }

// drawBounds returns n different tokens, ascending.
func drawBounds(r *rand.Rand, n int) []ring.Token {
	bounds := make([]ring.Token, n)
	for i := range bounds {
		bounds[i] = ring.Token(r.Uint64() | 1)
	}
	slices.Sort(bounds)
	return slices.Compact(bounds)
}

// newTestMeter returns a meter that has begun to measure a ring.
func newTestMeter(bounds []ring.Token) (*Meter, *testclock.Clock) {
	clock := &testclock.Clock{}
	m := New(Options{Clock: clock})
	m.SetRing(bounds, everyRange)
	m.Beat()
	return m, clock
}

// beats advances the time by whole seconds, and updates the averages after each.
func beats(m *Meter, clock *testclock.Clock, seconds int, each func()) {
	for range seconds {
		if each != nil {
			each()
		}
		clock.Advance(time.Second)
		m.Beat()
	}
}

// TestTokensAreCountedInTheirRange compares the layout with the definition of a range, for tokens at and beside all
// bounds.
func TestTokensAreCountedInTheirRange(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 3, 64, 1000} {
		bounds := drawBounds(r, n)
		if n == 3 {
			bounds = []ring.Token{ring.MinToken + 1, -1, ring.MaxToken}
		}
		m, _ := newTestMeter(bounds)
		l := m.layout.Load()
		probe := []ring.Token{ring.MinToken + 1, ring.MaxToken, 0, -1}
		for _, b := range bounds {
			probe = append(probe, b, ring.Token(r.Uint64()|1))
			if b < ring.MaxToken {
				probe = append(probe, b+1)
			}
			if b > ring.MinToken+1 {
				probe = append(probe, b-1)
			}
		}
		for _, tok := range probe {
			if p := l.of(tok); !p.tokens.Contains(tok) {
				t.Errorf("%d ranges: token %v is counted in %v", n, tok, p.tokens)
			}
		}
	}
}

// TestCountsAreExact counts in several goroutines while the ring changes: ranges are divided and joined, and the node
// gains and loses some. Every request is counted once.
func TestCountsAreExact(t *testing.T) {
	const workers, requests = 4, 20_000
	r := rand.New(rand.NewPCG(2, 2))
	m, clock := newTestMeter(drawBounds(r, 64))
	var running sync.WaitGroup
	var done [workers]atomic.Int64
	for w := range workers {
		running.Go(func() {
			r := rand.New(rand.NewPCG(3, uint64(w)))
			key := make([]byte, 8)
			for range requests {
				tok := ring.Token(r.Uint64() | 1)
				binary.BigEndian.PutUint64(key, uint64(tok))
				m.Read(7, tok, key, 3)
				m.Write(7, tok, key, 5)
				done[w].Add(1)
			}
		})
	}
	for range 50 {
		held := r.Uint64()
		m.SetRing(drawBounds(r, 1+r.IntN(128)), func(i int) bool { return held>>(i%64)&1 == 0 })
		// A request does not take longer than the interval of two beats.
		for w := range done {
			for before := done[w].Load(); before < requests-1 && done[w].Load() < before+2; {
				runtime.Gosched()
			}
		}
		clock.Advance(time.Second)
		m.Beat()
	}
	running.Wait()
	const n = workers * requests
	if got := m.Snapshot().Totals; got != (Totals{n, n, 3 * n, 5 * n}) {
		t.Errorf("counted %+v of %d reads and writes", got, n)
	}
	if len(m.retired) > 3*128 {
		t.Errorf("%d records of former ranges are kept", len(m.retired))
	}
}

// TestAveragesFollowTheLoad compares both averages with their definition: constant from the first second on under a
// constant load, and e^(-t/τ) of it when the load has ended for t.
func TestAveragesFollowTheLoad(t *testing.T) {
	m, clock := newTestMeter([]ring.Token{0, 100})
	load := func() {
		for range 50 {
			m.Read(1, 50, nil, 100)
			m.Write(1, 50, nil, 10)
		}
	}
	check := func(when string, got Rates, factor float64) {
		t.Helper()
		want := Rates{50, 50, 5000, 500}.times(factor)
		if math.Abs(got.Reads-want.Reads) > 1e-6*want.Reads || math.Abs(got.BytesOut-want.BytesOut) > 1e-3 ||
			math.Abs(got.Writes-want.Writes) > 1e-6*want.Writes || math.Abs(got.BytesIn-want.BytesIn) > 1e-3 {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	for _, after := range []int{1, 4, 600} {
		beats(m, clock, after, load)
		f := m.Snapshot().Ranges[1].Figures
		check("under load", f.Fast, 1)
		check("under load", f.Slow, 1)
	}
	beats(m, clock, 30, nil)
	f := m.Snapshot().Ranges[1].Figures
	check("30 s later", f.Fast, math.Exp(-3))
	check("30 s later", f.Slow, math.Exp(-0.25)*(1-math.Exp(-605.0/120))/(1-math.Exp(-635.0/120)))
	if other := m.Snapshot().Ranges[0].Figures; other != (Figures{}) {
		t.Errorf("the other range has %+v", other)
	}
}

// TestRingChangesKeepWhatIsKnown divides and joins ranges. A range that stays keeps its averages and bytes; a new one
// takes over from the ranges that it overlaps, in proportion to their tokens, so that the sums stay.
func TestRingChangesKeepWhatIsKnown(t *testing.T) {
	m, clock := newTestMeter([]ring.Token{0, 1000, 2000})
	beats(m, clock, 5, func() {
		for range 8 {
			m.Write(1, 700, nil, 1)
			m.Write(1, 1500, nil, 1)
		}
	})
	m.SetBytes(map[ring.Range]int64{{Start: 0, End: 1000}: 4000, {Start: 1000, End: 2000}: 600, {Start: 5, End: 6}: 1})
	figures := func() map[ring.Range]Figures {
		out := map[ring.Range]Figures{}
		for _, r := range m.Snapshot().Ranges {
			out[r.Tokens] = r.Figures
		}
		return out
	}
	expect := func(r ring.Range, writes float64, bytes int64) {
		t.Helper()
		f := figures()[r]
		if math.Abs(f.Fast.Writes-writes) > 1e-9 || math.Abs(f.Slow.Writes-writes) > 1e-9 || f.Bytes != bytes {
			t.Errorf("%v has %+v, want %v writes/s and %d bytes", r, f, writes, bytes)
		}
	}
	m.SetRing([]ring.Token{0, 250, 1000, 2000}, everyRange)
	expect(ring.Range{Start: 0, End: 250}, 2, 1000)
	expect(ring.Range{Start: 250, End: 1000}, 6, 3000)
	expect(ring.Range{Start: 1000, End: 2000}, 8, 600)
	// The load of the divided range is in its second part: the averages show it after their times.
	beats(m, clock, 60, func() {
		for range 8 {
			m.Write(1, 700, nil, 1)
		}
	})
	if f := figures()[ring.Range{Start: 0, End: 250}]; f.Fast.Writes > 0.02 {
		t.Errorf("the range without load has %+v", f)
	}
	m.SetRing([]ring.Token{0, 2000}, everyRange)
	joined := figures()[ring.Range{Start: 0, End: 2000}]
	if joined.Bytes != 4600 || math.Abs(joined.Fast.Writes-8.0) > 0.1 {
		t.Errorf("the joined range has %+v", joined)
	}
	if got := m.Snapshot().Totals.Writes; got != 5*16+60*8 {
		t.Errorf("%d writes are counted", got)
	}
	// A node that loses the range and gains it again begins from zero.
	m.SetRing([]ring.Token{0, 2000}, func(i int) bool { return i == 0 })
	m.SetRing([]ring.Token{0, 2000}, everyRange)
	expect(ring.Range{Start: 0, End: 2000}, 0, 0)
}

// TestOverlap compares the overlap of ranges with a count of tokens.
func TestOverlap(t *testing.T) {
	points := []ring.Token{ring.MinToken, -1 << 62, 0, 1 << 62, 3 << 61}
	// The ranges consist of these parts of the ring.
	parts := []ring.Range{{Start: ring.MinToken, End: -1 << 62}, {Start: -1 << 62, End: 0}, {Start: 0, End: 1 << 62},
		{Start: 1 << 62, End: 3 << 61}, {Start: 3 << 61, End: ring.MinToken}}
	contains := func(r, part ring.Range) bool {
		last := part.End
		if last == ring.MinToken {
			last = ring.MaxToken
		}
		return r.Contains(last)
	}
	for _, a := range points {
		for _, b := range points {
			for _, c := range points {
				for _, d := range points {
					x, y := ring.Range{Start: a, End: b}, ring.Range{Start: c, End: d}
					want := 0.0
					for _, p := range parts {
						if contains(x, p) && contains(y, p) {
							want += p.Share()
						}
					}
					if got := overlap(x, y); math.Abs(got-want) > 1e-12 {
						t.Errorf("%v and %v have %v in common, want %v", x, y, got, want)
					}
				}
			}
		}
	}
}

// zipf draws keys with a Zipf distribution: key 0 is the most frequent.
func zipf(r *rand.Rand, s float64, n int) func() []byte {
	z := rand.NewZipf(r, s, 1, uint64(n-1))
	return func() []byte { return fmt.Appendf(nil, "key %d", z.Uint64()) }
}

// TestHotKeysAreFound makes requests for keys with a Zipf distribution. Within five seconds the meter shows the hottest
// key with its charge, and its range as the one with the most charge.
func TestHotKeysAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	m, clock := newTestMeter(drawBounds(r, 64))
	draw, hot := zipf(r, 1.1, 100_000), 0
	const perSecond, table = 4000, schema.StorageID(1000)
	beats(m, clock, 5, func() {
		for range perSecond {
			key := draw()
			if string(key) == "key 0" {
				hot++
			}
			m.Read(table, ring.Murmur3(key), key, 1024)
		}
	})
	s := m.Snapshot()
	want := ring.Murmur3([]byte("key 0"))
	k := s.Keys[0]
	if string(k.Bytes) != "key 0" || k.Table != table || k.Token != want || k.Writes != 0 {
		t.Fatalf("the hottest key is %+v", k)
	}
	// Each request has a charge of 1.
	if truth := float64(hot) / 5; math.Abs(k.Charge-truth) > truth/4 {
		t.Errorf("the hottest key has a charge of %v per second, the truth is %v", k.Charge, truth)
	}
	most := slices.MaxFunc(s.Ranges, func(a, b Range) int {
		if a.Fast.Charge() < b.Fast.Charge() {
			return -1
		}
		return 1
	})
	if !most.Tokens.Contains(want) || most.Hottest == nil || most.Hottest.Token != want {
		t.Errorf("the hottest range is %v with %+v", most.Tokens, most.Hottest)
	}
	if math.Abs(s.Sum.Fast.Reads-perSecond) > 1 {
		t.Errorf("the sum is %v reads per second", s.Sum.Fast.Reads)
	}
	// Requests for other keys take their place.
	beats(m, clock, 60, func() {
		for i := range 200 {
			m.Write(table, ring.Token(1+i%2), []byte{byte(i % 2)}, 10)
		}
	})
	for i, k := range m.Snapshot().Keys[:2] {
		if len(k.Bytes) != 1 || math.Abs(k.Charge-100*Charge(0, 1, 0, 10)) > 15 || k.Writes < 0.95 {
			t.Errorf("after a change of the load, key %d is %+v", i, k)
		}
	}
}

// TestUniformLoadHasNoHotKey reads far more keys than the sketch keeps, all of them equally often.
func TestUniformLoadHasNoHotKey(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	m, clock := newTestMeter(drawBounds(r, 16))
	beats(m, clock, 10, func() {
		for range 4000 {
			key := fmt.Appendf(nil, "key %d", r.IntN(1_000_000))
			m.Read(1, ring.Murmur3(key), key, 100)
		}
	})
	s := m.Snapshot()
	if len(s.Keys) > 0 || m.sketch.n != keysMax {
		t.Errorf("%d keys are known, %d are kept", len(s.Keys), m.sketch.n)
	}
	for _, x := range s.Ranges {
		if x.Hottest != nil {
			t.Errorf("%v has the hot key %+v", x.Tokens, x.Hottest)
		}
	}
}

// TestSketchKeepsItsInvariant compares the sketch with the charges of all keys in it: see sketch.
func TestSketchKeepsItsInvariant(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 20 {
		var s sketch
		truth := map[ring.Token]float64{}
		draw := rand.NewZipf(r, 1.01+r.Float64(), 1, 5000)
		for range 20_000 {
			tok, charge := ring.Token(draw.Uint64()+1), 1+r.Float64()
			truth[tok] += charge
			s.add(1, tok, nil, charge, false)
			if r.IntN(1000) == 0 {
				s.decay(time.Second)
				for k := range truth {
					truth[k] *= 1 - weightOf(time.Second, Fast)
				}
			}
		}
		least := slices.Min(s.charges[:s.n])
		for i := range s.n {
			k := &s.keys[i]
			if x := truth[k.token]; x > s.charges[i]*(1+1e-9) || x < (s.charges[i]-k.err)*(1-1e-9) {
				t.Fatalf("key %d has the charge %v ± %v, the truth is %v", k.token, s.charges[i], k.err, x)
			}
			delete(truth, k.token)
		}
		for k, x := range truth {
			if s.n == keysMax && x > least*(1+1e-9) {
				t.Fatalf("key %d with the charge %v is not kept, one with %v is", k, x, least)
			}
		}
	}
}

// TestLongKeysAreNotStored counts a key that is longer than the sketch stores.
func TestLongKeysAreNotStored(t *testing.T) {
	m, clock := newTestMeter([]ring.Token{0})
	beats(m, clock, 2, func() {
		for range 640 {
			m.Write(1, 9, make([]byte, keyBytesMax), 1)
			m.Write(1, 8, make([]byte, keyBytesMax+1), 1)
		}
	})
	keys := m.Snapshot().Keys
	if len(keys) != 2 {
		t.Errorf("%d keys are known", len(keys))
	}
	for _, k := range keys {
		if want := map[ring.Token]int{9: keyBytesMax}[k.Token]; len(k.Bytes) != want {
			t.Errorf("token %v has a key of %d bytes, want %d", k.Token, len(k.Bytes), want)
		}
	}
}

// TestSamplesAreSpreadEvenly checks the rate of the sample, and that it contains all keys of requests that alternate.
func TestSamplesAreSpreadEvenly(t *testing.T) {
	for period := uint64(1); period <= 64; period++ {
		seen := make([]int, period)
		const n = 200_000
		for i := range uint64(n) {
			if enters(i) {
				seen[i%period]++
			}
		}
		want := float64(n) / sampleEvery / float64(period)
		if least, most := float64(slices.Min(seen)), float64(slices.Max(seen)); least < want*0.75 || most > want*1.3 {
			t.Errorf("period %d: a key is sampled %v to %v times, want %v", period, least, most, want)
		}
	}
}

// TestHostIsMeasured checks the processor time per second.
func TestHostIsMeasured(t *testing.T) {
	clock := &testclock.Clock{}
	m := New(Options{Clock: clock, CPU: func() time.Duration { return 10*time.Second + clock.Monotonic()/2 }})
	m.SetDisk(30, 40)
	m.Beat()
	if h := m.Snapshot().Host; h != (Host{0, 30, 40}) {
		t.Errorf("at the start: %+v", h)
	}
	beats(m, clock, 5, nil)
	if h := m.Snapshot().Host; math.Abs(h.CPU-0.5) > 1e-9 {
		t.Errorf("half a core is shown as %v", h.CPU)
	}
}

// TestCountingAllocatesNothing includes requests that enter the sketch and replace keys.
func TestCountingAllocatesNothing(t *testing.T) {
	m, _ := newTestMeter(drawBounds(rand.New(rand.NewPCG(7, 7)), 256))
	key, i := make([]byte, 16), uint64(0)
	if n := testing.AllocsPerRun(20_000, func() {
		i += 0x9E3779B97F4A7C15
		binary.BigEndian.PutUint64(key, i)
		m.Read(1, ring.Token(i), key, 100)
		m.Write(1, ring.Token(i), key, 100)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	var none *Meter
	none.Read(1, 1, key, 1)
	none.Write(1, 1, key, 1)
}

// BenchmarkCount measures what a request pays.
func BenchmarkCount(b *testing.B) {
	for _, ranges := range []int{64, 1024, 16_384} {
		for _, unique := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d ranges, unique %v", ranges, unique), func(b *testing.B) {
				r := rand.New(rand.NewPCG(8, 8))
				m, _ := newTestMeter(drawBounds(r, ranges))
				z := rand.NewZipf(r, 1.2, 1, 1<<40)
				all := make([]ring.Token, 1<<16)
				for i := range all {
					all[i] = ring.Token(r.Uint64())
					if !unique {
						all[i] = ring.Murmur3(fmt.Append(nil, z.Uint64()))
					}
				}
				key := make([]byte, 16)
				b.ResetTimer()
				began := cputime.Process()
				for i := range b.N {
					m.Read(1, all[i%len(all)], key, 1000)
				}
				// Other processes of the machine do not count.
				b.ReportMetric(float64((cputime.Process()-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// BenchmarkBeat measures the update of the averages, which is due once a second.
func BenchmarkBeat(b *testing.B) {
	for _, ranges := range []int{64, 16_384} {
		b.Run(fmt.Sprint(ranges, " ranges"), func(b *testing.B) {
			m, clock := newTestMeter(drawBounds(rand.New(rand.NewPCG(8, 8)), ranges))
			for b.Loop() {
				clock.Advance(time.Second)
				m.Beat()
			}
		})
	}
}

// TestRangesWithoutChargeHaveNoHotKey shows a key whose requests have decayed to nothing.
func TestRangesWithoutChargeHaveNoHotKey(t *testing.T) {
	m, _ := newTestMeter(drawBounds(rand.New(rand.NewPCG(6, 6)), 16))
	s, l := m.snapshot()
	for _, charge := range []float64{0, 1e-300} {
		s.Keys = []Key{{Table: 1, Token: 7, Charge: charge}}
		s.findHottest(l)
		for _, x := range s.Ranges {
			if x.Hottest != nil {
				t.Errorf("%v has the hot key %+v", x.Tokens, x.Hottest)
			}
		}
	}
}
