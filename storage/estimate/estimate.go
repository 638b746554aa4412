// Package estimate estimates how many partitions a table has in ranges of tokens, and how large they are. Clients
// divide tables by these numbers (system.size_estimates), so an error of some ten percent does no harm.
//
//	few partitions:   walk ───▶ all tokens, exact
//	more than 48:     evenly ─▶ 48 seeks ─▶ found / tokens walked = density
package estimate

import (
	"bytes"
	"errors"
	"math"
	"sort"

	"github.com/cockroachdb/pebble/v2"

	"cqld/ring"
	"cqld/schema"
	"cqld/storage/rowkey"
)

// Partitions is an estimate of the number and size of a table's partitions in ranges of tokens. It is immutable.
type Partitions struct {
	// MeanBytes is the mean size of a partition's keys and values, before compression; 0 when there is none.
	MeanBytes int64

	exact   []ring.Token // tokens of all partitions, ascending, if there are few; otherwise nil
	density float64      // partitions per token
	held    float64      // number of tokens for which the estimate was made
}

// All returns the number of partitions in all ranges for which the estimate was made.
func (p Partitions) All() int64 {
	// A table with few partitions has no density: its partitions are listed.
	if p.density > 0 {
		return int64(math.Round(p.density * p.held))
	}
	return int64(len(p.exact))
}

// In returns the number of partitions in ranges, which may wrap and must be among those for which the estimate was
// made. For other ranges, the result has no meaning.
func (p Partitions) In(ranges ...ring.Range) int64 {
	var n float64
	for _, r := range ranges {
		// The tokens of a range are compared as numbers, so a range that wraps is split first.
		for _, piece := range r.Unwrap() {
			if p.density > 0 {
				n += p.density * width(piece)
				continue
			}
			n += float64(count(p.exact, piece))
		}
	}
	return int64(math.Round(n))
}

// count returns how many of the ascending tokens lie in r, which does not wrap.
func count(tokens []ring.Token, r ring.Range) int {
	// A range excludes its start, except for the smallest token.
	from := sort.Search(len(tokens), func(i int) bool { return tokens[i] > r.Start || r.Start == ring.MinToken })
	to := len(tokens)
	if r.End != ring.MinToken {
		to = sort.Search(len(tokens), func(i int) bool { return tokens[i] > r.End })
	}
	return max(0, to-from)
}

// width returns how many tokens r has, which does not wrap.
func width(r ring.Range) float64 {
	// The difference below would be zero.
	if r == ring.FullRange() {
		return math.Exp2(64)
	}
	return float64(uint64(r.End) - uint64(r.Start))
}

// Samples is the number of partitions that an estimate examines: the relative error of the count is 1/√48, 14
// %, so one estimate in 10,000 is wrong by more than a factor of 1.7. Smaller tables are counted.
const Samples = 48

// rowsMeasured is the number of entries of a sampled partition that are measured. The size of the rest of a larger
// partition is taken from its files.
const rowsMeasured = 32

// Of estimates how many partitions a table has in the ranges that this node holds. Tokens are hashes: from any
// position, the distance to the next partition is exponentially distributed with the density as its rate. So the
// estimate seeks from evenly spaced positions, and divides the number of partitions found by the sum of the distances
// to them. Partitions that consist only of tombstones count. The cost is at most 48 seeks and 1,536 entries, whatever
// the table's size. It reads the present state of db from the disk, without a snapshot.
func Of(db *pebble.DB, id schema.StorageID, held []ring.Range) (p Partitions, err error) {
	s := &sample{db: db, id: id}
	for _, r := range held {
		s.pieces = append(s.pieces, r.Unwrap()...)
	}
	if len(s.pieces) == 0 {
		return p, nil
	}
	bounds := &pebble.IterOptions{LowerBound: rowkey.AppendTable(nil, id), UpperBound: rowkey.AppendTableEnd(nil, id)}
	if s.iter, err = db.NewIter(bounds); err != nil {
		return p, err
	}
	p, err = s.run()
	return p, errors.Join(err, s.iter.Close())
}

// sample is one estimate in progress. It is used by one goroutine.
type sample struct {
	db     *pebble.DB
	id     schema.StorageID
	pieces []ring.Range // held, split so that none wraps
	iter   *pebble.Iterator
	key    []byte // scratch

	// measured counts the partitions measured so far, and bytes their size.
	measured int
	bytes    int64
}

// run counts the partitions of a small table, and estimates the number for a larger one.
func (s *sample) run() (Partitions, error) {
	exact, all, err := s.walk()
	if err != nil {
		return Partitions{}, err
	}
	if all {
		return Partitions{exact: exact, MeanBytes: s.mean()}, nil
	}
	// The partitions that walk measured are discarded: they are the first ones of the ranges, whereas a sample must
	// be evenly spaced.
	s.measured, s.bytes = 0, 0
	var held float64
	for _, r := range s.pieces {
		held += width(r)
	}
	density, err := s.evenly(held)
	return Partitions{density: density, held: held, MeanBytes: s.mean()}, err
}

// mean returns the mean size of the partitions measured.
func (s *sample) mean() int64 {
	if s.measured == 0 {
		return 0
	}
	return s.bytes / int64(s.measured)
}

// walk counts the partitions one by one, and stops if there are more than Samples. all is false if it has stopped.
func (s *sample) walk() (tokens []ring.Token, all bool, err error) {
	for _, r := range s.pieces {
		at, ok := s.next(rowkey.AppendToken(s.key[:0], s.id, first(r)))
		for ok && inPiece(r, at) {
			// There are more, so the estimate is cheaper and accurate enough.
			if len(tokens) == Samples {
				return nil, false, nil
			}
			tokens = append(tokens, at)
			if err := s.measure(); err != nil {
				return nil, false, err
			}
			at, ok = s.next(s.key)
		}
		if err := s.iter.Error(); err != nil {
			return nil, false, err
		}
	}
	// The held ranges come in any order.
	sort.Slice(tokens, func(i, j int) bool { return tokens[i] < tokens[j] })
	return tokens, true, nil
}

// evenly estimates the density from evenly spaced positions in the ranges, which have total tokens.
func (s *sample) evenly(total float64) (density float64, err error) {
	var walked float64
	found := 0
	for i := range Samples {
		// The positions are the middles of equally long parts.
		r, from := s.position(total * (float64(i) + 0.5) / Samples)
		at, ok := s.next(rowkey.AppendToken(s.key[:0], s.id, from))
		// No partition follows in this piece. The distance to its end counts as walked, which lowers the density.
		if !ok || !inPiece(r, at) {
			walked += width(ring.Range{Start: from, End: r.End})
			continue
		}
		walked += width(ring.Range{Start: from, End: at}) + 1
		found++
		if err := s.measure(); err != nil {
			return 0, err
		}
	}
	// At least one: the table is not empty, because walk found more than Samples.
	return float64(max(found, 1)) / walked, s.iter.Error()
}

// position returns the token at an offset into the held ranges, and the piece that contains it.
func (s *sample) position(at float64) (ring.Range, ring.Token) {
	for _, r := range s.pieces {
		w := width(r)
		if at < w {
			return r, first(r) + ring.Token(uint64(at))
		}
		at -= w
	}
	// Only a rounding error can lead here.
	last := s.pieces[len(s.pieces)-1]
	return last, first(last)
}

// first returns the smallest token in r.
func first(r ring.Range) ring.Token {
	if r.Start == ring.MaxToken {
		return ring.MaxToken
	}
	return r.Start + 1
}

// inPiece reports whether a token is in a range that does not wrap. An end of MinToken is the end of the ring.
func inPiece(r ring.Range, t ring.Token) bool {
	return t > r.Start && (t <= r.End || r.End == ring.MinToken)
}

// next advances to the first partition at or after a key. ok is false at the end of the table, and for an error of the
// iterator, which the caller looks at.
func (s *sample) next(key []byte) (ring.Token, bool) {
	s.key = key
	if !s.iter.SeekGE(key) {
		return 0, false
	}
	_, k, _, err := rowkey.Parse(s.iter.Key())
	if err != nil {
		return 0, false // reads of it report the corruption
	}
	return k.Token, true
}

// measure adds the size of the partition at the iterator, and sets s.key to the key after it. The bytes of keys and
// values are before compression; a large partition is measured by its files, after it.
func (s *sample) measure() error {
	_, k, _, err := rowkey.Parse(s.iter.Key())
	if err != nil {
		return err
	}
	start := rowkey.AppendPartition(nil, s.id, k)
	s.key = append(append(s.key[:0], start...), rowkey.KindEnd)
	var size int64
	n := 0
	for ok := true; ok && bytes.HasPrefix(s.iter.Key(), start); ok = s.iter.Next() {
		// EstimateDiskUsage returns compressed bytes in files, so the sum so far may be larger, and the greater one
		// counts.
		if n == rowsMeasured {
			onDisk, err := s.db.EstimateDiskUsage(start, s.key)
			if err != nil {
				return err
			}
			size = max(size, int64(onDisk))
			break
		}
		value, err := s.iter.ValueAndErr()
		if err != nil {
			return err
		}
		size += int64(len(s.iter.Key()) + len(value))
		n++
	}
	s.measured++
	s.bytes += size
	return s.iter.Error()
}
