package vector

import (
	"math"

	"cqld/types/similarity"
)

// point is a vector, and the factor that makes its length 1 if the function is the cosine.
type point struct {
	// vector is never modified, because results refer to it.
	vector []float32
	// scale is 1 for the other functions, and 0 for the zero vector, which has no direction.
	scale float32
}

// pointOf returns the point of a vector, which it keeps. The vector is stored as it is, not normalized, because results
// return it.
func pointOf(f similarity.Function, v []float32) point {
	if f != similarity.Cosine {
		return point{v, 1}
	}
	// The sum is computed in float64, so that the square of a large element does not overflow.
	var sum float64
	for _, e := range v {
		sum += float64(e) * float64(e)
	}
	if sum == 0 {
		return point{v, 0}
	}
	return point{v, float32(1 / math.Sqrt(sum))}
}

// distance orders points by score: less is nearer. It omits steps that do not change the order: the square root of
// the Euclidean distance, and the mapping to a score.
func (x *Index) distance(a, b *point) float32 {
	if x.o.Function == similarity.Euclidean {
		return squared(a.vector, b.vector)
	}
	// The scales make this the cosine; with the dot product they are 1.
	return -dot(a.vector, b.vector) * a.scale * b.scale
}

// score returns the score that belongs to a distance. For example, the cosine of two equal vectors has the distance -1
// and the score 1; opposite ones have 1 and 0.
func score(f similarity.Function, d float32) float32 {
	if f == similarity.Euclidean {
		return 1 / (1 + d)
	}
	return (1 - d) / 2
}

// dot and squared have four independent sums, which the processor can add in parallel.

// dot returns the scalar product of two vectors of the same length.
func dot(a, b []float32) float32 {
	// The bound lets the compiler omit checks in the loop.
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	for len(a) >= 8 && len(b) >= 8 {
		s0 += a[0]*b[0] + a[4]*b[4]
		s1 += a[1]*b[1] + a[5]*b[5]
		s2 += a[2]*b[2] + a[6]*b[6]
		s3 += a[3]*b[3] + a[7]*b[7]
		a, b = a[8:], b[8:]
	}
	for i, e := range a {
		s0 += e * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// squared returns the square of the Euclidean distance of two vectors of the same length.
func squared(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	for len(a) >= 8 && len(b) >= 8 {
		d0, d4 := a[0]-b[0], a[4]-b[4]
		d1, d5 := a[1]-b[1], a[5]-b[5]
		d2, d6 := a[2]-b[2], a[6]-b[6]
		d3, d7 := a[3]-b[3], a[7]-b[7]
		s0 += d0*d0 + d4*d4
		s1 += d1*d1 + d5*d5
		s2 += d2*d2 + d6*d6
		s3 += d3*d3 + d7*d7
		a, b = a[8:], b[8:]
	}
	for i, e := range a {
		d := e - b[i]
		s0 += d * d
	}
	return (s0 + s1) + (s2 + s3)
}
