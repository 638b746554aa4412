package load

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// format is the version of reports, their first byte. A node ignores reports of a later version, and the rest of a
// report that is longer than it knows.
const format = 1

// Report contains the measurements of a node as it sends them to the others. Figures have an error of ±3.1 %, and rates
// below one in four seconds one of 1/32 per second.
//
//	report := format checksum host sum held n entry*
//	host   := cpu diskFree diskTotal        sum := bytes reads writes bytesOut bytesIn charge slowCharge
//	entry  := gap<<1|hot bytes reads writes charge slowCharge [table token share]
//
// Quantities are codes of one or two bytes (encodeQuantity). gap is the number of ranges of the ring between two
// entries. checksum identifies the ranges of the sender's ring.
type Report struct {
	Host Host
	Sum  Reported
	// Held is the number of ranges that the node holds. Ranges has the ones with the most charge or bytes, in the order
	// of their ends. It is empty if the sender's ring is not the receiver's: one of them has not applied a change yet.
	Held   int
	Ranges []RangeReport
}

// Reported are the figures of a range or a node in a report. All but SlowCharge and Bytes are averages over Fast, per
// second.
type Reported struct {
	Bytes              int64
	Reads, Writes      float64
	BytesOut, BytesIn  float64 // zero for the ranges of other nodes
	Charge, SlowCharge float64
}

// RangeReport are the figures of one range on one node.
type RangeReport struct {
	Tokens ring.Range
	Reported
	Hottest HotKey
}

// HotKey is the key that causes the most charge of a range. The zero value means that none is known.
type HotKey struct {
	Table schema.StorageID
	Token ring.Token
	Share float64 // of the charge of the range, at least hotShareMin
}

// reported returns what a report has of figures.
func reported(f Figures) Reported {
	return Reported{Bytes: f.Bytes, Reads: f.Fast.Reads, Writes: f.Fast.Writes, BytesOut: f.Fast.BytesOut,
		BytesIn: f.Fast.BytesIn, Charge: f.Fast.Charge(), SlowCharge: f.Slow.Charge()}
}

// entriesFor returns the greatest number of ranges in the report of each of the given number of members.
func entriesFor(members int) int {
	return min(entriesMax, max(1, entriesTotal/max(1, members)))
}

// AppendReport appends a report of this node for a ring with the given number of members.
func (m *Meter) AppendReport(b []byte, members int) []byte {
	s, l := m.snapshot()
	b = wire.AppendUint32(append(b, format), l.checksum)
	b = appendQuantity(b, s.Host.CPU*1000)
	b = appendQuantity(b, float64(s.Host.DiskFree))
	b = appendQuantity(b, float64(s.Host.DiskTotal))
	sum := reported(s.Sum)
	b = appendQuantity(b, float64(sum.Bytes))
	b = appendRate(appendRate(b, sum.Reads), sum.Writes)
	b = appendRate(appendRate(b, sum.BytesOut), sum.BytesIn)
	b = appendRate(appendRate(b, sum.Charge), sum.SlowCharge)
	b = wire.AppendUvarint(b, uint64(len(s.Ranges)))
	selected := largest(s.Ranges, entriesFor(members))
	b = wire.AppendUvarint(b, uint64(len(selected)))
	next := 0
	for _, i := range selected {
		b = appendEntry(b, &s.Ranges[i], l.held[i]-next)
		next = l.held[i] + 1
	}
	return b
}

// largest returns the indices of at most n ranges, ascending: first the ones with the most charge, and as many with the
// most bytes.
func largest(ranges []Range, n int) []int {
	all := make([]int, len(ranges))
	for i := range all {
		all[i] = i
	}
	if len(all) <= n {
		return all
	}
	charges := make([]float64, len(ranges))
	for i := range ranges {
		charges[i] = ranges[i].Fast.Charge()
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(charges[b], charges[a]) })
	selected, rest := all[:n/2], all[n/2:]
	slices.SortStableFunc(rest, func(a, b int) int { return cmp.Compare(ranges[b].Bytes, ranges[a].Bytes) })
	selected = append(selected, rest[:n-n/2]...)
	slices.Sort(selected)
	return selected
}

// appendEntry appends a range. gap is the number of ranges of the ring since the last entry.
func appendEntry(b []byte, r *Range, gap int) []byte {
	f := reported(r.Figures)
	first := uint64(gap) << 1
	if r.Hottest != nil {
		first |= 1
	}
	b = wire.AppendUvarint(b, first)
	b = appendQuantity(b, float64(f.Bytes))
	b = appendRate(appendRate(b, f.Reads), f.Writes)
	b = appendRate(appendRate(b, f.Charge), f.SlowCharge)
	if h := r.Hottest; h != nil {
		b = wire.AppendUint64(wire.AppendUvarint(b, uint64(h.Table)), uint64(h.Token))
		b = append(b, byte(math.Round(min(1, h.Charge/f.Charge)*math.MaxUint8)))
	}
	return b
}

// decodeReport decodes a report. Entries are decoded if the sender's ring is the ring of l, and only the first most.
func decodeReport(b []byte, l *layout, most int) (*Report, error) {
	if len(b) > reportBytesMax {
		return nil, fmt.Errorf("load: a report of %d bytes is longer than the maximum of %d", len(b), reportBytesMax)
	}
	c := wire.NewCursor(b)
	if f := c.Uint8(); f != format {
		return nil, fmt.Errorf("load: a report has format %d, this build reads %d", f, format)
	}
	checksum := c.Uint32()
	r := &Report{Host: Host{CPU: quantity(&c) / 1000, DiskFree: int64(quantity(&c)), DiskTotal: int64(quantity(&c))}}
	r.Sum = Reported{Bytes: int64(quantity(&c)), Reads: rate(&c), Writes: rate(&c), BytesOut: rate(&c),
		BytesIn: rate(&c), Charge: rate(&c), SlowCharge: rate(&c)}
	r.Held = int(min(c.Uvarint(), math.MaxInt32))
	// An entry has at least six bytes.
	n := c.Count(6)
	if checksum != l.checksum || c.Err() != nil {
		return r, c.Err()
	}
	r.Ranges = make([]RangeReport, 0, min(n, most))
	next := uint64(0)
	for range min(n, most) {
		first := c.Uvarint()
		next += first >> 1
		if next >= uint64(len(l.bounds)) {
			return nil, fmt.Errorf("load: a report has a range beyond the %d ranges of the ring", len(l.bounds))
		}
		e := RangeReport{Tokens: tokens(l.bounds, int(next)), Reported: Reported{Bytes: int64(quantity(&c)),
			Reads: rate(&c), Writes: rate(&c), Charge: rate(&c), SlowCharge: rate(&c)}}
		if first&1 != 0 {
			e.Hottest = HotKey{Table: schema.StorageID(c.Uvarint()), Token: ring.Token(c.Uint64()),
				Share: float64(c.Uint8()) / math.MaxUint8}
		}
		next++
		r.Ranges = append(r.Ranges, e)
	}
	return r, c.Err()
}

// appendQuantity appends a number that is not negative.
func appendQuantity(b []byte, x float64) []byte {
	return wire.AppendUvarint(b, encodeQuantity(uint64(math.Round(min(max(x, 0), quantityMax)))))
}

// quantity reads a number that appendQuantity has appended.
func quantity(c *wire.Cursor) float64 { return float64(decodeQuantity(c.Uvarint())) }

// perUnit is the number of parts in which rates are rounded.
const perUnit = 16

// appendRate appends a rate.
func appendRate(b []byte, perSecond float64) []byte { return appendQuantity(b, perSecond*perUnit) }

// rate reads a rate.
func rate(c *wire.Cursor) float64 { return quantity(c) / perUnit }

// quantityMax is the greatest quantity that has a code: a power of two.
const quantityMax = 1 << 62

// encodeQuantity returns the code of a number up to quantityMax. Numbers below 32 are their own codes. A greater one is
// rounded to five significant bits, and has the code 32 + 16·(exponent-1) + the four bits after the first. Codes are in
// the order of their numbers. The largest has two bytes as a varint.
func encodeQuantity(x uint64) uint64 {
	if x < 32 {
		return x
	}
	e := bits.Len64(x) - 5
	m := (x + 1<<(e-1)) >> e
	// Rounded up to the next power of two.
	if m == 32 {
		m, e = 16, e+1
	}
	return 32 + uint64(e-1)*16 + (m - 16)
}

// decodeQuantity returns the number of a code. A code beyond the code of quantityMax gives quantityMax.
func decodeQuantity(code uint64) uint64 {
	if code < 32 {
		return code
	}
	if code >= encodeQuantity(quantityMax) {
		return quantityMax
	}
	e := (code-32)/16 + 1
	return (16 + (code-32)%16) << e
}
