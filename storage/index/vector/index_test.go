package vector

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"cqld/types/similarity"
)

// source makes clustered vectors: real embeddings are not spread evenly either.
type source struct {
	r       *rand.Rand
	centers [][]float32
}

func newSource(seed uint64, dimensions, clusters int) *source {
	s := &source{r: rand.New(rand.NewPCG(seed, 1))}
	for range clusters {
		c := make([]float32, dimensions)
		for i := range c {
			c[i] = float32(s.r.NormFloat64())
		}
		s.centers = append(s.centers, c)
	}
	return s
}

func (s *source) vector() []float32 {
	v := slices.Clone(s.centers[s.r.IntN(len(s.centers))])
	for i := range v {
		v[i] += 0.5 * float32(s.r.NormFloat64())
	}
	return v
}

// nearest returns the keys of the k vectors with the greatest scores.
func nearest(f similarity.Function, all map[string][]float32, q []float32, k int) []string {
	keys := make([]string, 0, len(all))
	scores := map[string]float32{}
	for key, v := range all {
		keys, scores[key] = append(keys, key), mustScore(f, q, v)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if scores[a] > scores[b] {
			return -1
		}
		return 1
	})
	return keys[:min(k, len(keys))]
}

func first(x *Index, q []float32, beam, k int, accept func(string) bool) (out []string) {
	s := x.Search(q, beam, accept)
	defer s.Close()
	for len(out) < k {
		r, ok := s.Next()
		if !ok {
			break
		}
		out = append(out, r.Key)
	}
	return out
}

func recall(got, want []string) float64 {
	hits := 0
	for _, k := range want {
		if slices.Contains(got, k) {
			hits++
		}
	}
	return float64(hits) / float64(len(want))
}

var functions = []similarity.Function{similarity.Cosine, similarity.Euclidean, similarity.DotProduct}

func mustScore(f similarity.Function, a, b []float32) float32 {
	score, _ := f.Score(a, b)
	return score
}

// TestScoresOfDistances checks that the scores in results are those of the functions.
func TestScoresOfDistances(t *testing.T) {
	s := newSource(1, 40, 3)
	for _, f := range functions {
		x := New(Options{Dimensions: 40, Function: f})
		for range 20 {
			a, b := s.vector(), s.vector()
			want, _ := f.Score(a, b)
			if got := score(f, x.distance(new(pointOf(f, a)), new(pointOf(f, b)))); math.Abs(float64(got-want)) > 1e-4 {
				t.Errorf("%v: %v, expected %v", f, got, want)
			}
		}
	}
}

// TestLoopsOfAnyLength compares the unrolled loops with plain ones.
func TestLoopsOfAnyLength(t *testing.T) {
	s := newSource(1, 40, 3)
	for n := range 41 {
		a, b := s.vector()[:n], s.vector()[:n]
		var product, distance float64
		for i := range a {
			product += float64(a[i]) * float64(b[i])
			distance += float64(a[i]-b[i]) * float64(a[i]-b[i])
		}
		if got := dot(a, b); math.Abs(float64(got)-product) > 1e-4 {
			t.Errorf("dot of %d: %v, expected %v", n, got, product)
		}
		if got := squared(a, b); math.Abs(float64(got)-distance) > 1e-4 {
			t.Errorf("squared of %d: %v, expected %v", n, got, distance)
		}
	}
}

func TestRefusesVectors(t *testing.T) {
	x := New(Options{Dimensions: 2})
	inf := float32(math.Inf(1))
	if err := x.Set("a", []float32{0, 0}); !errors.Is(err, ErrIncomparable) {
		t.Errorf("zero vector: %v", err)
	}
	if err := x.Set("a", []float32{0, inf}); !errors.Is(err, ErrIncomparable) {
		t.Errorf("infinity: %v", err)
	}
	if err := x.Set("a", []float32{0, float32(math.NaN())}); !errors.Is(err, ErrIncomparable) {
		t.Errorf("NaN: %v", err)
	}
	if err := x.Set("a", []float32{1}); err == nil {
		t.Error("one dimension instead of two")
	}
	if err := New(Options{Dimensions: 2, Function: similarity.Euclidean}).Set("a", []float32{0, 0}); err != nil {
		t.Errorf("zero vector with %v: %v", similarity.Euclidean, err)
	}
	if x.Len() != 0 || x.Bytes() != 0 {
		t.Errorf("%d keys, %d bytes", x.Len(), x.Bytes())
	}
}

// TestModel makes random changes and checks that a search to the end yields exactly the keys that are there, and the
// best ones first: through the exact search and through the graph.
func TestModel(t *testing.T) {
	for _, exact := range []int{1 << 20, 1} {
		for _, f := range functions {
			t.Run(fmt.Sprint(f, exact), func(t *testing.T) { testModel(t, f, exact) })
		}
	}
}

func testModel(t *testing.T, f similarity.Function, exact int) {
	const dimensions = 16
	s := newSource(2, dimensions, 10)
	x := New(Options{Dimensions: dimensions, Function: f, Exact: exact, Connections: 8, Beam: 50})
	model := map[string][]float32{}
	total, searches := 0.0, 0
	for i := range 3000 {
		key := fmt.Sprint(s.r.IntN(800))
		if s.r.IntN(5) < 2 {
			if got, want := x.Delete(key), model[key] != nil; got != want {
				t.Fatalf("Delete: %v, expected %v", got, want)
			}
			delete(model, key)
		} else {
			v := s.vector()
			if err := x.Set(key, v); err != nil {
				t.Fatal(err)
			}
			model[key] = v
		}
		if x.Len() != len(model) {
			t.Fatalf("%d keys, expected %d", x.Len(), len(model))
		}
		if i%200 != 199 {
			continue
		}
		q := s.vector()
		all := first(x, q, 10, len(model)+1, nil)
		if slices.Sort(all); len(all) != len(model) || len(slices.Compact(all)) != len(model) {
			t.Fatalf("a search yields %d keys, expected %d", len(all), len(model))
		}
		even := func(key string) bool { return (key[len(key)-1]-'0')%2 == 0 }
		evens := map[string][]float32{}
		for k, v := range model {
			if even(k) {
				evens[k] = v
			}
		}
		total += recall(first(x, q, 50, 10, nil), nearest(f, model, q, 10)) +
			recall(first(x, q, 50, 10, even), nearest(f, evens, q, 10))
		searches += 2
	}
	if got := total / float64(searches); got < 0.95 || exact > 1 && got < 1 {
		t.Errorf("recall@10 %v", got)
	}
	for key := range model {
		x.Delete(key)
	}
	if got := first(x, s.vector(), 10, 10, nil); len(got) != 0 {
		t.Errorf("an index without keys yields %v", got)
	}
	// Ghosts that wait are bounded.
	if n := int64(minGhosts * 2); x.Bytes() > n*x.size(&node{key: "1000",
		point: point{vector: make([]float32, dimensions)}})*4 {
		t.Errorf("%d bytes without keys", x.Bytes())
	}
}

// TestRecall inserts clustered vectors in the order of their clusters, the worst order, and deletes half of them.
func TestRecall(t *testing.T) {
	const n, dimensions = 2500, 24
	s := newSource(3, dimensions, 40)
	x := New(Options{Dimensions: dimensions, Function: similarity.Euclidean, Exact: 1})
	model := map[string][]float32{}
	centers := s.centers
	for i := range n {
		s.centers = centers[i*len(centers)/n:][:1]
		key := fmt.Sprint(i)
		model[key] = s.vector()
		if err := x.Set(key, model[key]); err != nil {
			t.Fatal(err)
		}
	}
	s.centers = centers
	check := func() {
		t.Helper()
		total := 0.0
		const searches = 50
		for range searches {
			q := s.vector()
			total += recall(first(x, q, 100, 10, nil), nearest(similarity.Euclidean, model, q, 10))
		}
		if total/searches < 0.95 {
			t.Errorf("recall@10 of %d vectors is %v", len(model), total/searches)
		}
	}
	check()
	for i := 0; i < n; i += 2 {
		x.Delete(fmt.Sprint(i))
		delete(model, fmt.Sprint(i))
	}
	check()
}

// TestSearchBesideWriter searches while vectors are replaced and deleted: keys that are not touched are always yielded.
func TestSearchBesideWriter(t *testing.T) {
	const n, dimensions = 500, 8
	s := newSource(4, dimensions, 5)
	x := New(Options{Dimensions: dimensions, Exact: 1})
	for i := range n {
		if err := x.Set(fmt.Sprint(i), s.vector()); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for r := range 2 {
		wg.Go(func() {
			own := newSource(uint64(10+r), dimensions, 5)
			for {
				select {
				case <-stop:
					return
				default:
				}
				got := map[string]bool{}
				for _, k := range first(x, own.vector(), 20, 4*n, nil) {
					got[k] = true
				}
				for i := 0; i < n; i += 2 {
					if !got[fmt.Sprint(i)] {
						t.Errorf("a search did not yield %d", i)
						return
					}
				}
			}
		})
	}
	for range 600 {
		key := fmt.Sprint(s.r.IntN(n/2)*2 + 1)
		if s.r.IntN(2) == 0 {
			x.Delete(key)
		} else if err := x.Set(key, s.vector()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestHeapSorts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for _, farthest := range []bool{false, true} {
		h, want := heap{farthest: farthest}, []float32{}
		for range 300 {
			d := float32(r.IntN(100))
			h.push(candidate{distance: d})
			want = append(want, d)
		}
		slices.Sort(want)
		if farthest {
			slices.Reverse(want)
		}
		for _, d := range want {
			if got := h.pop().distance; got != d {
				t.Fatalf("%v instead of %v", got, d)
			}
		}
	}
}

// TestSearchesFindKeysThatAreSetAgain sets a key to the vector that it has, as a row does that is written again, while
// a search runs that has passed the slot of a new node and has not reached the present one.
func TestSearchesFindKeysThatAreSetAgain(t *testing.T) {
	x := New(Options{Dimensions: 1, Function: similarity.Euclidean})
	set := func(key string, v float32) {
		if err := x.Set(key, []float32{v}); err != nil {
			t.Fatal(err)
		}
	}
	set("free", 1)
	set("first", 2)
	set("again", 3)
	x.Delete("free")
	x.mu.Lock()
	x.repair.draining, x.repair.waiting = x.repair.waiting, nil
	x.release() // slot 0 is free
	x.mu.Unlock()
	s := x.Search([]float32{3}, 8, func(key string) bool {
		if key == "first" {
			set("again", 3)
		}
		return true
	})
	defer s.Close()
	found := map[string]int{}
	for r, ok := s.Next(); ok; r, ok = s.Next() {
		found[r.Key]++
	}
	if found["again"] != 1 || found["first"] != 1 || len(found) != 2 {
		t.Errorf("found %v", found)
	}
}
