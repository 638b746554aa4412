package ring

import (
	"math"
	"strconv"
)

// Token is a position on the Murmur3 ring. MinToken is never the token of a key: it is the open lower end of the
// whole ring.
type Token int64

// MinToken precedes every key; MaxToken is the greatest token of a key.
const (
	MinToken Token = math.MinInt64
	MaxToken Token = math.MaxInt64
)

// String returns the token as system tables show it.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// Range is the set of tokens in (Start, End]. Start == End is the whole ring; Start > End wraps.
//
// An End of MinToken means the end of the ring, which is also the start of it.
type Range struct{ Start, End Token }

// FullRange returns the range of all tokens.
func FullRange() Range { return Range{MinToken, MinToken} }

// Contains reports whether t lies in r.
func (r Range) Contains(t Token) bool {
	switch {
	case r.Start == r.End:
		return true
	// (x, MinToken] extends to the end of the ring: no token is greater than MinToken as an end.
	case r.Start < r.End || r.End == MinToken:
		return t > r.Start && (t <= r.End || r.End == MinToken)
	default:
		return t > r.Start || t <= r.End
	}
}

// Wraps reports whether r passes the end of the ring. (x, MinToken] does not: it ends there.
func (r Range) Wraps() bool { return r.Start >= r.End && r.End != MinToken }

// Unwrap returns r as one or two ranges that do not wrap, in token order.
func (r Range) Unwrap() []Range {
	if !r.Wraps() {
		return []Range{r}
	}
	return []Range{{MinToken, r.End}, {r.Start, MinToken}}
}

// Share returns the share of all tokens that lie in r, from 0 to 1.
func (r Range) Share() float64 {
	// The difference of unsigned numbers is also right for a range that wraps.
	const whole = 1 << 64
	width := uint64(r.End) - uint64(r.Start)
	if width == 0 {
		return 1
	}
	return float64(width) / whole
}

// String returns the range in interval notation.
func (r Range) String() string { return "(" + r.Start.String() + ", " + r.End.String() + "]" }

// Overlaps reports whether a token lies in both ranges.
func (r Range) Overlaps(o Range) bool {
	// Pieces that do not wrap are intervals, for which the usual comparison holds if MinToken as an end is taken as
	// greater than all tokens.
	for _, a := range r.Unwrap() {
		for _, b := range o.Unwrap() {
			if (b.End == MinToken || a.Start < b.End) && (a.End == MinToken || b.Start < a.End) {
				return true
			}
		}
	}
	return false
}

// Covers reports whether every token of o, which does not wrap, lies in r, which does not wrap either.
func (r Range) Covers(o Range) bool {
	return r.Start <= o.Start && (r.End == MinToken || o.End != MinToken && o.End <= r.End)
}
