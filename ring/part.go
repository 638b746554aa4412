package ring

import "math/bits"

// Part is part i of n nearly equal parts of r, in token order. r does not wrap, and is not the whole
// ring. A range of fewer than n tokens has empty parts: their Start is their End.
func (r Range) Part(i, n int) Range {
	at := func(i int) Token {
		if i == n {
			return r.End
		}
		hi, lo := bits.Mul64(uint64(i), r.span())
		q, rest := bits.Div64(hi, lo, uint64(n))
		if rest > 0 {
			q++
		}
		return r.Start + Token(q)
	}
	return Range{at(i), at(i + 1)}
}

// PartOf is the part of n that holds t, which lies in r.
func (r Range) PartOf(t Token, n int) int {
	hi, lo := bits.Mul64(uint64(t)-uint64(r.Start)-1, uint64(n))
	q, _ := bits.Div64(hi, lo, r.span())
	return int(q)
}

// span is how many tokens r has.
func (r Range) span() uint64 { return uint64(r.End) - uint64(r.Start) }
