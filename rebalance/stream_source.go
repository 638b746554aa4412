package rebalance

import (
	"errors"
	"fmt"
	"time"

	"cqld/coordinator"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
)

var (
	errStreamNotYet   = errors.New("the source does not know the topology, or a truncation, yet")
	errStreamChecksum = errors.New("a block does not have its checksum")
	// errStreamTruncated says that the table was truncated here since a file was begun.
	errStreamTruncated = errors.New("the table was truncated")
)

// streamBurst is how far the send budget may be overdrawn: a timer for each block would only delay it.
const streamBurst = 20 * time.Millisecond

// serve answers another node's request for a block.
func (s *Streams) serve(from ring.NodeID, payload []byte, respond messaging.Respond) {
	r, err := decodeStreamRequest(payload)
	if err != nil {
		respond(nil, replica.ToRemote(err))
		return
	}
	s.mu.Lock()
	if s.mu.closed || s.mu.held >= s.o.Limits.HeldMax {
		s.mu.Unlock()
		respond(nil, replica.ToRemote(&coordinator.Overloaded{What: "too many streams leave this node"}))
		return
	}
	s.mu.held++
	s.mu.Unlock()
	s.o.Run(func() {
		reply, err := s.export(&r)
		s.note(Sending{Peer: from, Table: r.table, Range: r.tokens}, len(reply))
		if err != nil {
			reply, err = nil, replica.ToRemote(replica.FromStorage(err))
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
	if s.o.View.Topology().Epoch() < r.epoch {
		return []byte{0}, nil
	}
	if !s.o.Local.Truncations().Ready(r.table, r.truncations, s.o.View.Schema()) {
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
