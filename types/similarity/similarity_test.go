package similarity

import (
	"math"
	"slices"
	"testing"
)

// TestScores compares with the answers of Cassandra's functions.
func TestScores(t *testing.T) {
	a := []float32{1, 2, 3}
	for _, c := range []struct {
		f    Function
		b    []float32
		want float32
	}{
		{Cosine, []float32{1, 2, 2}, 0.9899789094924927},
		{Cosine, []float32{-1, 2, 2}, 0.900891900062561},
		{Cosine, []float32{-1, -2, -2}, 0.010021060705184937},
		{Cosine, []float32{2, 4, 6}, 1},
		{Euclidean, []float32{4, -5, 6}, 1. / 68},
		{DotProduct, []float32{4, -5, 6}, 6.5},
	} {
		if got, ok := c.f.Score(a, c.b); got != c.want || !ok {
			t.Errorf("%v of %v: %v, expected %v", c.f, c.b, got, c.want)
		}
	}
	if _, ok := Cosine.Score(a, make([]float32, 3)); ok {
		t.Error("a zero vector has a cosine")
	}
}

func TestOptions(t *testing.T) {
	for name, want := range map[string]Function{"cosine": Cosine, "Euclidean": Euclidean, "DOT_PRODUCT": DotProduct} {
		if f, ok := Of(map[string]string{Option: name}); f != want || !ok {
			t.Errorf("%s: %v", name, f)
		}
	}
	if f, ok := Of(nil); f != Cosine || !ok {
		t.Errorf("no option: %v", f)
	}
	if _, ok := Of(map[string]string{Option: "foo"}); ok {
		t.Error("foo is a function")
	}
}

func TestComparable(t *testing.T) {
	inf, nan := float32(math.Inf(-1)), float32(math.NaN())
	for _, f := range []Function{Cosine, Euclidean, DotProduct} {
		if f.Comparable([]float32{1, nan}) || f.Comparable([]float32{inf, 1}) || !f.Comparable([]float32{0, 1}) {
			t.Errorf("%v", f)
		}
		if got, want := f.Comparable([]float32{0, 0}), f != Cosine; got != want {
			t.Errorf("%v of a zero vector: %v", f, got)
		}
	}
}

func TestDecode(t *testing.T) {
	if got := Decode(nil, []byte{0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0}); !slices.Equal(got, []float32{1, -2}) {
		t.Error(got)
	}
}
