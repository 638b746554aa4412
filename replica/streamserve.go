package replica

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/ring"
	"cqld/schema"
)

// StreamLimits are the bounds of Streams. Zero means the default.
type StreamLimits struct {
	// BlockBytes is how much one answer carries: it is read and sent in a few ms, so that requests of
	// clients on the same connection do not wait.
	BlockBytes int
	// FileBytes is when an sstable is complete: at 24 MiB/s it is two thirds of a second that a crash
	// makes fetch again, and a GiB is 64 files.
	FileBytes int64
	// BytesPerSecond is what this node sends in all: stream_throughput_outbound, Cassandra's 24 MiB/s.
	BytesPerSecond int64
	// PullsMax is how many pulls of this node are under way at once; the others wait. Each holds a block
	// and the buffers of an sstable, about a MiB.
	PullsMax int
	// HeldMax is how many blocks may wait for BytesPerSecond before who asks is told to come again.
	HeldMax int
	// Timeout is how long a block may take.
	Timeout time.Duration
	// RetryMin and RetryMax are the pauses after failures, which double; after RetryFor without an
	// answer the pull fails.
	RetryMin, RetryMax, RetryFor time.Duration
	// TruncationWait is how long after a truncation of a table here a source must have made it too: more than the time
	// that TRUNCATE gives to nodes.
	TruncationWait time.Duration
}

func (l StreamLimits) withDefaults() StreamLimits {
	setDefault(&l.BlockBytes, 256<<10)
	setDefault(&l.FileBytes, 16<<20)
	setDefault(&l.BytesPerSecond, 24<<20)
	setDefault(&l.PullsMax, 4)
	setDefault(&l.HeldMax, 64)
	setDefault(&l.Timeout, 10*time.Second)
	setDefault(&l.RetryMin, 100*time.Millisecond)
	setDefault(&l.RetryMax, 5*time.Second)
	setDefault(&l.RetryFor, 2*time.Minute)
	setDefault(&l.TruncationWait, 2*time.Minute)
	return l
}

func setDefault[T ~int | ~int64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

var (
	errStreamNotYet   = errors.New("the source does not know the topology, or a truncation, yet")
	errStreamChecksum = errors.New("a block does not have its checksum")
	// errStreamTruncated says that the table was truncated here since a file was begun.
	errStreamTruncated = errors.New("the table was truncated")
)

// streamRequest asks for one block.
//
//	request := first 1, epoch uvarint, table uvarint, start 8, end 8, bytesMax uvarint, n uvarint, n × (table 4, id 8), after
//	reply   := 0 | 1, crc32c 4, total uvarint, last 1, next uvarint length, bytes, block
//
// n are the truncations that the source must have made. A reply of 0 says "not yet". The checksum is of all behind it.
type streamRequest struct {
	first    bool
	epoch    uint64
	table    schema.StorageID
	tokens   ring.Range
	bytesMax int
	after    []byte
	// truncations are those that the source must have made.
	truncations []coordinator.Truncation
}

type streamReply struct {
	total int64
	next  []byte // nil when this block is the last
	block []byte
}

// streamBlockMax bounds what a node can make another read for one block.
const streamBlockMax = 4 << 20

func appendStreamRequest(dst []byte, r *streamRequest) []byte {
	var first byte
	if r.first {
		first = 1
	}
	dst = wire.AppendUvarint(append(dst, first), r.epoch)
	dst = wire.AppendUvarint(dst, uint64(r.table))
	dst = wire.AppendInt64(wire.AppendInt64(dst, int64(r.tokens.Start)), int64(r.tokens.End))
	dst = wire.AppendUvarint(wire.AppendUvarint(dst, uint64(r.bytesMax)), uint64(len(r.truncations)))
	for _, t := range r.truncations {
		dst = wire.AppendUint64(wire.AppendUint32(dst, uint32(t.Table)), t.ID)
	}
	return append(dst, r.after...)
}

func decodeStreamRequest(payload []byte) (r streamRequest, err error) {
	c := wire.NewCursor(payload)
	r.first, r.epoch, r.table = c.Uint8() == 1, c.Uvarint(), schema.StorageID(c.Uvarint())
	r.tokens = ring.Range{Start: ring.Token(c.Int64()), End: ring.Token(c.Int64())}
	r.bytesMax = int(min(c.Uvarint(), streamBlockMax))
	const truncationBytes = 4 + 8
	for range c.Count(truncationBytes) {
		r.truncations = append(r.truncations, coordinator.Truncation{Table: schema.StorageID(c.Uint32()), ID: c.Uint64()})
	}
	r.after = slices.Clone(c.Rest())
	return r, c.Finish()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// streamBurst is how far the budget may be overdrawn: a timer for each block would only make them late.
const streamBurst = 20 * time.Millisecond

// streamHead is what stands before what the checksum is of.
const streamHead = 5

// appendStreamReply appends the head of a reply; the block follows, then sealStreamReply.
func appendStreamReply(dst []byte, total int64, next []byte) []byte {
	dst = wire.AppendUvarint(append(dst, 1, 0, 0, 0, 0), uint64(total))
	var last byte
	if next == nil {
		last = 1
	}
	return append(wire.AppendUvarint(append(dst, last), uint64(len(next))), next...)
}

func sealStreamReply(reply []byte) {
	wire.AppendUint32(reply[:1], crc32.Checksum(reply[streamHead:], castagnoli))
}

func decodeStreamReply(payload []byte) (r streamReply, err error) {
	c := wire.NewCursor(payload)
	if c.Uint8() == 0 && c.Err() == nil {
		return r, errStreamNotYet
	}
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

// serve answers another node's request for a block.
func (s *Streams) serve(from ring.NodeID, payload []byte, respond messaging.Respond) {
	r, err := decodeStreamRequest(payload)
	if err != nil {
		respond(nil, toRemote(err))
		return
	}
	s.mu.Lock()
	if s.mu.closed || s.mu.held >= s.o.Limits.HeldMax {
		s.mu.Unlock()
		respond(nil, toRemote(&coordinator.Overloaded{What: "too many streams leave this node"}))
		return
	}
	s.mu.held++
	s.mu.Unlock()
	s.o.Run(func() {
		reply, err := s.export(&r)
		s.note(Sending{Peer: from, Table: r.table, Range: r.tokens}, len(reply))
		if err != nil {
			reply, err = nil, toRemote(fromStorage(err))
		}
		s.send(reply, err, respond)
	})
}

// Sending is a range that another node pulls from this one.
type Sending struct {
	Peer  ring.NodeID
	Table schema.StorageID
	Range ring.Range
}

// sending is how much of it was sent, and when the last block was asked for (monotonic).
type sending struct {
	bytes int64
	last  time.Duration
}

// sendingKept is how long a range counts as being sent after its last block was asked for: the source does not learn of the end.
const sendingKept = 10 * time.Second

// sendingMax bounds how many of them are shown: 100 bytes each.
const sendingMax = 1000

// note counts a block, and forgets ranges that no node asks for any more.
func (s *Streams) note(x Sending, size int) {
	now := s.o.Clock.Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, v := range s.mu.out {
		if now-v.last > sendingKept {
			delete(s.mu.out, k)
		}
	}
	v := s.mu.out[x]
	if v == nil && len(s.mu.out) >= sendingMax {
		return
	}
	if v == nil {
		v = &sending{}
		s.mu.out[x] = v
	}
	v.bytes, v.last = v.bytes+int64(size), now
}

// Sent are the ranges that other nodes pull from this one, with the bytes that they have got.
func (s *Streams) Sent() map[Sending]int64 {
	now := s.o.Clock.Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[Sending]int64{}
	for k, v := range s.mu.out {
		if now-v.last <= sendingKept {
			out[k] = v.bytes
		}
	}
	return out
}

// export makes the reply to a request. Before the first block, all that was admitted under an older
// topology is waited for: from then on whoever pulls gets the writes itself.
func (s *Streams) export(r *streamRequest) (reply []byte, err error) {
	if s.o.Local.view.Topology().Epoch() < r.epoch {
		return []byte{0}, nil
	}
	if !s.o.Local.truncations.ready(r.table, r.truncations, s.o.Local.view.Schema()) {
		return []byte{0}, nil
	}
	var total int64
	if r.first {
		s.o.Local.Settle()
		if err := s.o.Engine.Drain(); err != nil {
			return nil, err
		}
		if total, err = s.o.Engine.SizeOf(r.table, r.tokens); err != nil {
			return nil, err
		}
	}
	// The head's size depends on next, which is known last.
	block, next, err := s.o.Engine.Export(nil, r.table, r.tokens, r.after, r.bytesMax)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	reply = make([]byte, 0, streamHead+32+len(next)+len(block))
	reply = append(appendStreamReply(reply, total, next), block...)
	sealStreamReply(reply)
	return reply, nil
}

// send responds when the budget allows.
func (s *Streams) send(reply []byte, err error, respond messaging.Respond) {
	s.mu.Lock()
	now := s.o.Clock.Monotonic()
	at := max(now, s.mu.free)
	s.mu.free = at + time.Duration(int64(len(reply))*int64(time.Second)/s.o.Limits.BytesPerSecond)
	s.mu.sent += int64(len(reply))
	s.mu.Unlock()
	let := func() {
		s.mu.Lock()
		s.mu.held--
		s.mu.Unlock()
		respond(reply, err)
	}
	if at-now <= streamBurst {
		let()
		return
	}
	s.o.Clock.After(at-now, let)
}
