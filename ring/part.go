package ring

import (
	"math/bits"

	"cqld/internal/invariant"
)

// Part returns part i of n nearly equal parts of r, in token order. r must not wrap, nor be the whole ring. If r has
// fewer than n tokens, some parts are empty: their Start equals their End.
func (r Range) Part(i, n int) Range {
	invariant.Check(!r.Wraps() && r.span() != 0, "ring: the whole ring, or a range that wraps, is divided into parts")
	invariant.Check(i >= 0 && i < n, "ring: there is no such part")
	at := func(i int) Token {
		if i == n {
			return r.End
		}
		// i*span/n in 128 bits: the product does not fit 64 bits. Div64 does not overflow, because i < n.
		hi, lo := bits.Mul64(uint64(i), r.span())
		q, rest := bits.Div64(hi, lo, uint64(n))
		// Rounded up, so that the first token of part i is the first t for which PartOf returns i.
		if rest > 0 {
			q++
		}
		return r.Start + Token(q)
	}
	return Range{at(i), at(i + 1)}
}

// PartOf returns the index of the part of n that contains t, which is in r.
func (r Range) PartOf(t Token, n int) int {
	// The position of t in r, counted from zero, times n, divided by the span.
	hi, lo := bits.Mul64(uint64(t)-uint64(r.Start)-1, uint64(n))
	q, _ := bits.Div64(hi, lo, r.span())
	invariant.Check(q < uint64(n), "ring: a token is in no part of the range")
	return int(q)
}

// span returns the number of tokens in r.
func (r Range) span() uint64 { return uint64(r.End) - uint64(r.Start) }
