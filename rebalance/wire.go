package rebalance

import (
	"hash/crc32"
	"slices"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// streamRequest requests one block.
//
//	request := first 1, epoch uvarint, table uvarint, start 8, end 8, bytesMax uvarint, n uvarint,
//	           n × (table 4, id 8), k uvarint, k × (uvarint length, keyspace), after
//	reply   := 0 | 1, crc32c 4, total uvarint, last 1, next uvarint length, bytes, block
//
// The request lists n truncations that the source must have applied, and, for system.paxos, the k keyspaces of which it
// requests the states. A reply of 0 means "not yet". The checksum covers all bytes after it.
type streamRequest struct {
	// first requests the estimate of the size, and makes the source wait until storage has all mutations that were
	// admitted before.
	first    bool
	epoch    uint64
	table    schema.StorageID
	tokens   ring.Range
	bytesMax int
	// after is the next of the last reply; empty means from the start of the range.
	after []byte
	// truncations are those that the source must have applied.
	truncations []coordinator.Truncation
	keyspaces   []string // Session.Keyspaces
}

// streamReply is a block, with the position and sizes that the receiver needs to continue.
type streamReply struct {
	total int64
	next  []byte // nil when this block is the last
	// block is the output of storage.Engine.Export. It points into the payload.
	block []byte
}

// appendStreamRequest ends with after, which has no length: it is the rest of the message.
func appendStreamRequest(dst []byte, r *streamRequest) []byte {
	var first byte
	if r.first {
		first = 1
	}
	dst = wire.AppendUvarint(append(dst, first), r.epoch)
	dst = wire.AppendUvarint(dst, uint64(r.table))
	dst = wire.AppendInt64(wire.AppendInt64(dst, int64(r.tokens.Start)), int64(r.tokens.End))
	dst = wire.AppendUvarint(wire.AppendUvarint(dst, uint64(r.bytesMax)), uint64(len(r.truncations)))
	// Truncations have a fixed size, so that the receiver can compare their number with the remaining bytes.
	for _, t := range r.truncations {
		dst = wire.AppendUint64(wire.AppendUint32(dst, uint32(t.Table)), t.ID)
	}
	dst = wire.AppendUvarint(dst, uint64(len(r.keyspaces)))
	for _, k := range r.keyspaces {
		dst = append(wire.AppendUvarint(dst, uint64(len(k))), k...)
	}
	return append(dst, r.after...)
}

// decodeStreamRequest is the inverse of appendStreamRequest. The request shares no memory with payload.
func decodeStreamRequest(payload []byte) (r streamRequest, err error) {
	c := wire.NewCursor(payload)
	r.first, r.epoch, r.table = c.Uint8() == 1, c.Uvarint(), schema.StorageID(c.Uvarint())
	r.tokens = ring.Range{Start: ring.Token(c.Int64()), End: ring.Token(c.Int64())}
	// The bound keeps a requester from making this node allocate more.
	r.bytesMax = int(min(c.Uvarint(), streamBlockMax))
	const truncationBytes = 4 + 8
	for range c.Count(truncationBytes) {
		r.truncations = append(r.truncations, coordinator.Truncation{Table: schema.StorageID(c.Uint32()),
			ID: c.Uint64()})
	}
	for range c.Count(1) {
		r.keyspaces = append(r.keyspaces, string(c.Take(c.Count(1))))
	}
	// The payload belongs to the transport, and export runs later.
	r.after = slices.Clone(c.Rest())
	return r, c.Finish()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// streamHead is the size of the reply before the bytes that the checksum covers.
const streamHead = 5

// appendStreamReply appends the header of a reply. The caller appends the block and then calls sealStreamReply.
func appendStreamReply(dst []byte, total int64, next []byte) []byte {
	dst = wire.AppendUvarint(append(dst, 1, 0, 0, 0, 0), uint64(total))
	var last byte
	if next == nil {
		last = 1
	}
	return append(wire.AppendUvarint(append(dst, last), uint64(len(next))), next...)
}

// sealStreamReply stores the checksum in the bytes after the first one, which appendStreamReply has left free.
func sealStreamReply(reply []byte) {
	wire.AppendUint32(reply[:1], crc32.Checksum(reply[streamHead:], castagnoli))
}

// decodeStreamReply decodes a reply, which points into payload. It fails with errStreamNotYet or errStreamChecksum,
// after which the block is requested again.
func decodeStreamReply(payload []byte) (r streamReply, err error) {
	c := wire.NewCursor(payload)
	// "Not yet" has neither a checksum nor a block.
	if c.Uint8() == 0 && c.Err() == nil {
		return r, errStreamNotYet
	}
	// The block becomes part of an sstable, so its bytes are checked before.
	if sum := c.Uint32(); c.Err() != nil || sum != crc32.Checksum(payload[streamHead:], castagnoli) {
		return r, errStreamChecksum
	}
	r.total = int64(c.Uvarint())
	last := c.Uint8() == 1
	n := c.Uvarint()
	if n > uint64(c.Len()) {
		return r, wire.ErrMalformed
	}
	if next := c.Take(int(n)); !last {
		r.next = next
	}
	r.block = c.Rest()
	return r, c.Finish()
}

// A node that is about to drop its data of ranges asks their replicas which ones they hold:
//
//	VerbHolds   epoch, n, n × (keyspace: size, bytes; start 8, end 8; since 8)
//	    reply:  n × 1 byte: 1 when the node holds the range, and it was repaired since (seconds; 0: any time)
//
// Numbers without a size are uvarints.

// appendHolds encodes the request of VerbHolds.
func appendHolds(dst []byte, epoch uint64, of []*holding) []byte {
	dst = wire.AppendUvarint(wire.AppendUvarint(dst, epoch), uint64(len(of)))
	for _, h := range of {
		dst = append(wire.AppendUvarint(dst, uint64(len(h.keyspace))), h.keyspace...)
		dst = wire.AppendInt64(wire.AppendInt64(dst, int64(h.tokens.Start)), int64(h.tokens.End))
		dst = wire.AppendInt64(dst, h.since)
	}
	return dst
}

// decodeHolds is the inverse of appendHolds. The holdings have no replicas.
func decodeHolds(payload []byte) (epoch uint64, of []*holding, err error) {
	c := wire.NewCursor(payload)
	epoch = c.Uvarint()
	// Count compares the number with the remaining bytes, so a false number allocates nothing.
	const sizeMin = 1 + 24
	for range c.Count(sizeMin) {
		h := &holding{keyspace: string(c.Take(c.Count(1)))}
		h.tokens = ring.Range{Start: ring.Token(c.Int64()), End: ring.Token(c.Int64())}
		h.since = c.Int64()
		of = append(of, h)
	}
	return epoch, of, c.Finish()
}
