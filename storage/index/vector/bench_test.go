package vector

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkRecall searches 100,000 clustered vectors of 128 dimensions, and reports recall@10 and the median latency.
// It takes a minute to build the graph.
func BenchmarkRecall(b *testing.B) {
	const n, dimensions, searches = 100_000, 128, 300
	for _, f := range functions {
		s := newSource(6, dimensions, 500)
		model := map[string][]float32{}
		x := New(Options{Dimensions: dimensions, Function: f})
		began := time.Now()
		for i := range n {
			key := fmt.Sprint(i)
			model[key] = s.vector()
			if err := x.Set(key, model[key]); err != nil {
				b.Fatal(err)
			}
		}
		build := time.Since(began)
		queries, want := make([][]float32, searches), make([][]string, searches)
		for i := range queries {
			queries[i] = s.vector()
			want[i] = nearest(f, model, queries[i], 10)
		}
		for _, beam := range []int{100, 200} {
			b.Run(fmt.Sprintf("%v/beam=%d", f, beam), func(b *testing.B) {
				var took []time.Duration
				total := 0.0
				for i := 0; b.Loop() || i < searches; i++ {
					at := time.Now()
					got := first(x, queries[i%searches], beam, 10, nil)
					took = append(took, time.Since(at))
					total += recall(got, want[i%searches])
				}
				slices.Sort(took)
				b.ReportMetric(total/float64(len(took)), "recall@10")
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(build.Microseconds())/n, "µs/insert")
				b.ReportMetric(float64(x.Bytes())/n, "bytes/key")
			})
		}
	}
}

func BenchmarkDot(b *testing.B) {
	s := newSource(7, 128, 1)
	v, w := s.vector(), s.vector()
	for b.Loop() {
		dot(v, w)
	}
}
