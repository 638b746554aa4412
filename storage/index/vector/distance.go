package vector

import "math"

// Function is a similarity function. The zero value is Cosine, as in Cassandra.
type Function uint8

// The similarity functions of Cassandra.
const (
	Cosine Function = iota
	Euclidean
	DotProduct
)

// String returns the name in Cassandra's option similarity_function.
func (f Function) String() string {
	switch f {
	case Euclidean:
		return "EUCLIDEAN"
	case DotProduct:
		return "DOT_PRODUCT"
	}
	return "COSINE"
}

// Score returns the similarity of two vectors of equal length as Cassandra defines it: greater is nearer. The score of a
// zero vector is 0 with Cosine, which Cassandra refuses to compute.
//
//	Cosine      (1 + a·b / (|a| |b|)) / 2
//	Euclidean   1 / (1 + |a-b|²)
//	DotProduct  (1 + a·b) / 2
func (f Function) Score(a, b []float32) float32 {
	switch f {
	case Euclidean:
		return 1 / (1 + squared(a, b))
	case DotProduct:
		return (1 + dot(a, b)) / 2
	}
	norms := math.Sqrt(float64(dot(a, a)) * float64(dot(b, b)))
	if norms == 0 {
		return 0
	}
	return float32((1 + float64(dot(a, b))/norms) / 2)
}

// prepare returns a copy of v in the form that distance compares: of length 1 for Cosine.
func (f Function) prepare(v []float32) []float32 {
	out := make([]float32, len(v))
	copy(out, v)
	if f != Cosine {
		return out
	}
	var sum float64
	for _, e := range v {
		sum += float64(e) * float64(e)
	}
	if sum == 0 {
		return out
	}
	scale := 1 / math.Sqrt(sum)
	for i, e := range v {
		out[i] = float32(float64(e) * scale)
	}
	return out
}

// distance orders prepared vectors by score: less is nearer.
func (f Function) distance(a, b []float32) float32 {
	if f == Euclidean {
		return squared(a, b)
	}
	return -dot(a, b)
}

// score returns the score that belongs to a distance.
func (f Function) score(d float32) float32 {
	if f == Euclidean {
		return 1 / (1 + d)
	}
	return (1 - d) / 2
}

// dot and squared have four sums, so that the processor adds beside each other what does not depend on each other.

func dot(a, b []float32) float32 {
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
