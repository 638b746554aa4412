package rebalance

import (
	"errors"
	"fmt"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
)

var (
	errStreamNotYet   = errors.New("the source has not applied the topology, or a truncation, yet")
	errStreamChecksum = errors.New("a block has a wrong checksum")
	// errStreamTruncated reports that the table was truncated on this node since the session began its file.
	errStreamTruncated = errors.New("the table was truncated")
)

// serve answers another node's request for a block.
func (s *Streams) serve(from ring.NodeID, payload []byte, respond messaging.Respond) {
	r, err := decodeStreamRequest(payload)
	if err != nil {
		respond(nil, replica.ToRemote(err))
		return
	}
	s.mu.Lock()
	// A block is counted before the disk is read, because blocks that wait for the budget are in memory.
	if s.mu.machine.closed || s.mu.held >= s.o.Limits.HeldMax {
		s.mu.Unlock()
		respond(nil, replica.ToRemote(&coordinator.Overloaded{What: "too many streams leave this node"}))
		return
	}
	// The memory is counted until send releases it, even if the export fails.
	s.mu.held++
	s.mu.Unlock()
	s.o.Run(func() {
		reply, err := s.export(from, &r)
		if err != nil {
			reply, err = nil, replica.ToRemote(replica.FromStorage(err))
		}
		s.send(reply, err, respond)
	})
}

// Sending is a range that another node streams from this one.
//
// The source has no sessions: it recognizes a stream by these values only.
type Sending struct {
	Peer  ring.NodeID
	Table schema.StorageID
	Range ring.Range
}

// Sent is the number of bytes sent of a range. Total is the estimated size of the range on disk when the stream
// began.
type Sent struct{ Bytes, Total int64 }

// sending is the state of a range that is being sent. until is when it is no longer shown (monotonic).
type sending struct {
	Sent
	until time.Duration
}

// record counts a block, and removes ranges that no node has requested lately.
func (s *Streams) record(x Sending, r streamReply) {
	now := s.o.Clock.Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, v := range s.mu.out {
		if now > v.until {
			delete(s.mu.out, k)
		}
	}
	// Expired entries are removed first, which may have made room for this one.
	v := s.mu.out[x]
	// Beyond the bound, only statistics are lost.
	if v == nil && len(s.mu.out) >= sendingMax {
		return
	}
	if v == nil {
		v = &sending{}
		s.mu.out[x] = v
	}
	v.Bytes, v.Total, v.until = v.Bytes+int64(len(r.block)), max(v.Total, r.total), now+sendingKept
	if r.next == nil {
		v.until = now + endedShown
	}
}

// Sent returns the ranges that other nodes stream from this one.
func (s *Streams) Sent() map[Sending]Sent {
	now := s.o.Clock.Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[Sending]Sent{}
	for k, v := range s.mu.out {
		if now <= v.until {
			out[k] = v.Sent
		}
	}
	return out
}

// export reads the reply to a request of a node. Before the first block, it waits for all mutations that were admitted
// at an earlier topology: since the required one, coordinators send writes to the receiver, too.
func (s *Streams) export(to ring.NodeID, r *streamRequest) (reply []byte, err error) {
	// Writes that this node still admits under an older topology may not reach the receiver.
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
	// The size of the header depends on next, which is known last.
	var of func([]byte) bool
	if r.table == schema.PaxosTable {
		of = s.o.Local.StatesOf(r.keyspaces...)
	}
	block, next, err := s.o.Engine.Export(nil, r.table, r.tokens, of, r.after, r.bytesMax)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	reply = make([]byte, 0, streamHead+32+len(next)+len(block))
	reply = append(appendStreamReply(reply, total, next), block...)
	sealStreamReply(reply)
	s.record(Sending{Peer: to, Table: r.table, Range: r.tokens}, streamReply{total: total, next: next, block: block})
	return reply, nil
}

// send responds when the outbound budget allows.
func (s *Streams) send(reply []byte, err error, respond messaging.Respond) {
	s.mu.Lock()
	now := s.o.Clock.Monotonic()
	// free moves by the size of each block, so blocks that wait are sent in the order in which they were read.
	at := max(now, s.mu.free)
	s.mu.free = at + time.Duration(int64(len(reply))*int64(time.Second)/s.o.Limits.BytesPerSecond)
	s.mu.sent += int64(len(reply))
	s.mu.Unlock()
	release := func() {
		s.release()
		respond(reply, err)
	}
	if at-now <= streamBurst {
		release()
		return
	}
	s.o.Clock.After(at-now, release)
}

// release counts a block that was sent.
func (s *Streams) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	invariant.Check(s.mu.held > 0, "rebalance: more blocks were sent than held")
	s.mu.held--
}
