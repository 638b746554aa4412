// Package similarity compares vectors of floats as Cassandra does. Scores are computed as Lucene's
// VectorSimilarityFunction does, in the range of 0 to 1 for Cosine and Euclidean. Cassandra orders the result of ANN OF
// by them and returns them from similarity_cosine, similarity_euclidean and similarity_dot_product.
//
// It does not search: package storage/index/vector does.
package similarity

import (
	"encoding/binary"
	"math"
	"strings"
)

// Function is a similarity function. The zero value is Cosine, the default of Cassandra's vector indexes. It is stored
// in the options of an index by its name, not by its number.
type Function uint8

// The similarity functions. Greater values are nearer. DotProduct is meant for vectors of length 1; for others it
// exceeds 1 or is negative.
const (
	Cosine     Function = iota // (1 + a·b / (|a| |b|)) / 2
	Euclidean                  // 1 / (1 + |a-b|²)
	DotProduct                 // (1 + a·b) / 2
)

// Option is the option of CREATE INDEX that names a function. Its value is case-insensitive.
const Option = "similarity_function"

// String returns the name of the function as the option has it. An unknown value is shown as COSINE.
func (f Function) String() string {
	switch f {
	case Euclidean:
		return "EUCLIDEAN"
	case DotProduct:
		return "DOT_PRODUCT"
	}
	return "COSINE"
}

// Of returns the function that the options of an index name, Cosine if they name none. ok is false for an unknown
// name, which CREATE INDEX rejects.
func Of(options map[string]string) (f Function, ok bool) {
	name, given := options[Option]
	if !given {
		return Cosine, true
	}
	for _, f := range []Function{Cosine, Euclidean, DotProduct} {
		if strings.EqualFold(name, f.String()) {
			return f, true
		}
	}
	return 0, false
}

// Score returns the similarity of two vectors of equal length. ok is false if it is not defined: the cosine of a zero
// vector. Sums are computed in float64, so the order of the elements hardly affects the result. b must have at least
// the length of a.
func (f Function) Score(a, b []float32) (score float32, ok bool) {
	var dot, squareA, squareB, distance float64
	for i, x := range a {
		x, y := float64(x), float64(b[i])
		dot += x * y
		squareA += x * x
		squareB += y * y
		distance += (x - y) * (x - y)
	}
	switch f {
	case Euclidean:
		return float32(1 / (1 + distance)), true
	case DotProduct:
		return float32((1 + dot) / 2), true
	}
	if squareA == 0 || squareB == 0 {
		return 0, false
	}
	// The quotient is rounded to float32 first, as Cassandra does.
	return (1 + float32(dot/math.Sqrt(squareA*squareB))) / 2, true
}

// Comparable reports whether a vector has a score with others: its elements are finite and, for Cosine, one is not
// zero. A vector that is not comparable is not in the index, and its row is not found by ANN OF.
func (f Function) Comparable(v []float32) bool {
	zero := true
	for _, e := range v {
		if e := float64(e); math.IsNaN(e) || math.IsInf(e, 0) {
			return false
		}
		zero = zero && e == 0
	}
	return !zero || f != Cosine
}

// Decode appends the elements of an encoded value of the type vector<float, n> to dst. Elements are big-endian IEEE 754
// numbers of four bytes each, without lengths. Bytes after the last whole element are ignored.
func Decode(dst []float32, value []byte) []float32 {
	for ; len(value) >= 4; value = value[4:] {
		dst = append(dst, math.Float32frombits(binary.BigEndian.Uint32(value)))
	}
	return dst
}
