package row

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"testing"
	"time"

	"cqld/internal/cputime"
)

func randomTombstones(rng *rand.Rand, n int) (out []RangeTombstone) {
	for range n {
		a, b := randomBound(rng), randomBound(rng)
		if bytes.Compare(a, b) > 0 {
			a, b = b, a
		}
		out = append(out, RangeTombstone{a, b, randomDeletion(rng)})
	}
	return out
}

func randomBound(rng *rand.Rand) []byte {
	b := []byte{0x40 + byte(rng.IntN(5)), 0x40 + byte(rng.IntN(3)), 0xFF}
	return b[:rng.IntN(4)]
}

func TestNormalizedTombstonesDeleteTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for range 5_000 {
		raw := randomTombstones(rng, rng.IntN(7))
		base := NoDeletion()
		if rng.IntN(2) == 0 {
			base = randomDeletion(rng)
		}
		text := fmt.Sprint(raw)
		normal := NormalizeRangeTombstones(bytesClone(raw), base)
		for i, n := range normal {
			if bytes.Compare(n.Start, n.End) >= 0 || n.Deletion.Timestamp <= base.Timestamp {
				t.Fatalf("%s: useless interval %v", text, n)
			}
			if i > 0 {
				before := normal[i-1]
				touch := bytes.Compare(before.End, n.Start)
				if touch > 0 || touch == 0 && before.Deletion == n.Deletion {
					t.Fatalf("%s: %v and %v overlap or belong together", text, before, n)
				}
			}
		}
		for range 20 {
			c := randomBound(rng)
			want := base
			for _, x := range raw {
				if bytes.Compare(x.Start, c) <= 0 && bytes.Compare(c, x.End) < 0 &&
					x.Deletion.Timestamp > base.Timestamp {
					want = want.Max(x.Deletion)
				}
			}
			if got := base.Max(DeletionAt(normal, c)); got.Timestamp != want.Timestamp {
				t.Fatalf("%s: at %x got %v, want %v", text, c, got, want)
			}
		}
	}
}

func bytesClone(in []RangeTombstone) []RangeTombstone { return append([]RangeTombstone(nil), in...) }

func TestNormalizingManyTombstonesIsNotQuadratic(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector's time is not compared
	cost := func(n, times int) (sum time.Duration) {
		for range times {
			tombstones := make([]RangeTombstone, n)
			for i := range tombstones {
				tombstones[i] = RangeTombstone{
					Start:    fmt.Appendf(nil, "%08d", i),
					End:      fmt.Appendf(nil, "%08d", 2*n-i),
					Deletion: Deletion{Timestamp: int64(i)},
				}
			}
			began := cputime.Process()
			if got := NormalizeRangeTombstones(tombstones, NoDeletion()); len(got) == 0 {
				t.Fatal("nothing left")
			}
			sum += cputime.Process() - began
		}
		return sum
	}
	// A hundred times as many at once take about 1.7 times as long, and 100 times if the cost is quadratic.
	if few, many := cost(1_000, 100), cost(100_000, 1); many > 15*few {
		t.Fatalf("100 times 1,000 nested tombstones took %v, 100,000 together %v", few, many)
	}
}

func TestCutTombstonesLieInTheSlices(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	for range 5_000 {
		normal := NormalizeRangeTombstones(randomTombstones(rng, 5), NoDeletion())
		var in []Slice
		var at []byte
		for range rng.IntN(4) {
			a, b := randomBound(rng), randomBound(rng)
			if bytes.Compare(at, a) <= 0 && bytes.Compare(a, b) < 0 {
				in, at = append(in, Slice{a, b}), b
			}
		}
		if rng.IntN(3) == 0 {
			in = append(in, Slice{Start: at})
		}
		cut := CutRangeTombstones(normal, in)
		for range 20 {
			c := randomBound(rng)
			want := NoDeletion()
			for _, s := range in {
				if s.Contains(c) {
					want = DeletionAt(normal, c)
				}
			}
			if got := DeletionAt(cut, c); got != want {
				t.Fatalf("%v cut to %v: at %x got %v, want %v", normal, in, c, got, want)
			}
		}
	}
}

func randomPartition(rng *rand.Rand) *Partition {
	p := &Partition{Key: NewPartitionKey([]byte("k")), Header: *canonical(randomRow(rng))}
	p.Header.Liveness, p.Header.HasRangeTombstones = NoLiveness(), false
	p.RangeTombstones = NormalizeRangeTombstones(randomTombstones(rng, rng.IntN(4)), p.Header.Deletion)
	for c := range byte(6) {
		if rng.IntN(2) == 0 {
			continue
		}
		r := canonical(randomRow(rng))
		r.Clustering, r.HasRangeTombstones = []byte{0x40 + c, 0x41}, false
		r.Shadow(p.Header.Deletion.Max(DeletionAt(p.RangeTombstones, r.Clustering)))
		if !r.Empty() {
			p.Rows = append(p.Rows, *r)
		}
	}
	return p
}

func pageOf(p *Partition) []byte {
	w := NewPageWriter(nil)
	w.Partition(p.Key, &p.Header, p.RangeTombstones)
	for i := range p.Rows {
		w.Row(&p.Rows[i])
	}
	w.EndPartition()
	return w.Finish(false)
}

func TestMergePartitionsDoesNotDependOnOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 1))
	for range 3_000 {
		a, b, c := randomPartition(rng), randomPartition(rng), randomPartition(rng)
		want := pageOf(MergePartitions([]*Partition{a, b, c}, false))
		for _, got := range []*Partition{
			MergePartitions([]*Partition{c, a, b}, false),
			MergePartitions([]*Partition{MergePartitions([]*Partition{a, b}, false), c}, false),
			MergePartitions([]*Partition{a, MergePartitions([]*Partition{c, b}, false), b}, false),
		} {
			if !bytes.Equal(pageOf(got), want) {
				t.Fatalf("\n  a %+v\n  b %+v\n  c %+v\n", a, b, c)
			}
		}
	}
}
