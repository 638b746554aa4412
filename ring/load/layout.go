package load

import (
	"hash/crc32"
	"slices"
	"sort"

	"cqld/internal/wire"
	"cqld/ring"
)

// layout is the ring as one node measures it: which counters a token has. It is immutable.
type layout struct {
	bounds   []ring.Token // the ends of all ranges of the ring, ascending
	checksum uint32       // of bounds: two nodes with equal checksums number the ranges equally
	// first has, for each value of the highest eight bits of a token, the first bound with this or a higher value, so
	// that a search examines a 256th of the ring. first[256] is the number of bounds.
	first [257]int32
	// at has the record of each range by the index of its end. Ranges that this node does not hold share rest.
	at   []*partition
	held []int // indices of the ranges with a record of their own, ascending
	rest *partition
}

// newLayout returns a layout in which all ranges share rest.
func newLayout(bounds []ring.Token, rest *partition) *layout {
	l := &layout{bounds: bounds, at: make([]*partition, len(bounds)), rest: rest}
	var b []byte
	for i, tok := range bounds {
		l.at[i] = rest
		b = wire.AppendUint64(b, uint64(tok))
	}
	l.checksum = crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	for top := range l.first {
		l.first[top] = int32(sort.Search(len(bounds), func(i int) bool { return topOf(bounds[i]) >= top }))
	}
	return l
}

// topOf returns the highest eight bits of a token in the order of tokens, from 0 to 255.
func topOf(t ring.Token) int { return int(uint64(t)>>56 ^ 0x80) }

// index returns the index of the range that contains a token.
func (l *layout) index(t ring.Token) int {
	top := topOf(t)
	lo, hi := l.first[top], l.first[top+1]
	// All bounds before lo are smaller than t, and the bounds from hi on are greater.
	for lo < hi {
		if mid := int32(uint32(lo+hi) >> 1); l.bounds[mid] < t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	// Tokens after the last bound belong to the first range, which wraps.
	if int(lo) == len(l.bounds) {
		return 0
	}
	return int(lo)
}

// of returns the record of a token.
func (l *layout) of(t ring.Token) *partition {
	if len(l.at) == 0 {
		return l.rest // this node has not seen a ring yet
	}
	return l.at[l.index(t)]
}

// tokens returns the range with an index. The only range of a ring of one token is the whole ring.
func tokens(bounds []ring.Token, i int) ring.Range {
	before := i - 1
	if before < 0 {
		before = len(bounds) - 1
	}
	return ring.Range{Start: bounds[before], End: bounds[i]}
}

// follow fills a layout with the ranges for which holds returns true, at most rangesMax. It takes the records of the
// ranges that before has as well, and returns the records of the ranges that l lacks.
func (l *layout) follow(before *layout, holds func(i int) bool) (retired []*partition) {
	old := make(map[ring.Range]*partition, len(before.held))
	for _, i := range before.held {
		old[before.at[i].tokens] = before.at[i]
	}
	var fresh []*partition
	for i := range l.bounds {
		if len(l.held) == rangesMax || !holds(i) {
			continue
		}
		r := tokens(l.bounds, i)
		p := old[r]
		if p == nil {
			p = &partition{tokens: r}
			fresh = append(fresh, p)
		}
		delete(old, r)
		l.at[i], l.held = p, append(l.held, i)
	}
	for _, i := range before.held {
		if p := before.at[i]; old[p.tokens] == p {
			retired = append(retired, p)
		}
	}
	// Ranges of a ring do not overlap, so a range takes over only from ranges that no longer exist.
	for _, p := range fresh {
		for _, o := range retired {
			p.inherit(o)
		}
	}
	return slices.Clip(retired)
}
