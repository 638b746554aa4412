package uuid

import "cqld/types"

// Positions generates the paths of the list elements that one write adds, a statement or a batch. A path is a
// time-based UUID, and elements are in the order of their paths:
//
//	ticks (60 bits)           variant  sequence  node
//	10 × timestamp + n>>21    2        n         random for each Source, one bit: Ballot
//
// n counts the elements of the write. The timestamp (µs) is unique within the node, and later than the timestamp of
// every write whose acknowledgment the node may know. So writes that follow each other keep their order, also through
// different coordinators, and concurrent writes share no path.
type Positions struct {
	source    *Source
	stamps    Timestamps
	timestamp int64
	ballot    uint64
	n         uint64
}

// Timestamps generates timestamps (µs since 1970), each greater than all previous ones.
type Timestamps interface{ Next() int64 }

// At returns the positions of a write with a timestamp from the node's Timestamps.
func (s *Source) At(timestamp int64) Positions { return Positions{source: s, timestamp: timestamp} }

// From returns the positions of a write whose own timestamp does not determine them, because a client has chosen it.
// Their timestamp is the next one of stamps when the first element is added.
func (s *Source) From(stamps Timestamps) Positions { return Positions{source: s, stamps: stamps} }

// Ballot returns the positions of a conditional change. Its timestamp comes from its ballot, not from the node's
// Timestamps, and is greater than the timestamps of all earlier changes.
func (s *Source) Ballot(timestamp int64) Positions {
	return Positions{source: s, timestamp: timestamp, ballot: ballotBit}
}

const (
	sequenceBits  = 21
	ticksPerMicro = 10
	// ballotBit distinguishes the two sources of timestamps, which may return equal ones.
	ballotBit = 1 << 39
	// nodeBits are the random bits of a path.
	nodeBits = ballotBit - 1
	// variantAndNode are variant 2, and the multicast bit, which marks a node ID that is not a network card's.
	variantAndNode = 2<<62 | 1<<40
	// sequenceSigns are the sign bits of the bytes that contain the sequence, which CQL orders as signed bytes. The
	// sign of the first byte is the variant's.
	sequenceSigns = 0x0080800000000000
)

// Append returns the path of an element at the end of the list: after all existing ones.
func (p *Positions) Append() []byte {
	ticks, sequence := p.next()
	return p.path(ticks, sequence)
}

// listFrontMillis is the time at which the paths of prepended elements are mirrored: the later an element is
// prepended, the smaller is its path. It is before every list's creation.
const listFrontMillis = 1262304000000 // 2010-01-01

// Prepend returns the path of an element at the front of the list: before all existing ones.
func (p *Positions) Prepend() []byte {
	ticks, sequence := p.next()
	return p.path(2*types.UUIDTicks(listFrontMillis, 0)-ticks, 1<<sequenceBits-1-sequence)
}

// next returns the time of the next element, and its sequence number within one tick.
func (p *Positions) next() (ticks, sequence uint64) {
	if p.timestamp == 0 {
		p.timestamp = p.stamps.Next()
	}
	n := p.n
	p.n++
	return types.UUIDTicks(0, p.timestamp*ticksPerMicro) + n>>sequenceBits, n & (1<<sequenceBits - 1)
}

func (p *Positions) path(ticks, sequence uint64) []byte {
	low := variantAndNode | sequence<<(40+1) | p.ballot | p.source.clockAndNode&nodeBits
	var id [16]byte
	types.AppendTimeuuid(id[:0], ticks, low^sequenceSigns)
	return types.Native(types.Timeuuid).AppendOrdered(nil, id[:], false)
}
