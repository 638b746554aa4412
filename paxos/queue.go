package paxos

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/invariant"
	"cqld/schema"
)

// queues contains the conditional changes and serial reads of each partition that wait at this node for the running
// round. They share the next round, in which they do not contend with each other.
//
//	queue of a partition:   [running round: a b c]   d e f g h      next: d e f g, then h
type queues struct {
	mu     sync.Mutex
	queues map[string][]*member // members that wait for the running round to end
	count  int64
}

// member is a conditional change or a serial read in its partition's queue or in a round.
type member struct {
	req      *CASRequest
	table    *schema.Table
	entered  time.Duration // time of arrival
	deadline time.Duration // of contention
	done     func(applied bool, page []byte, err error)
	answered bool // in its present round
	// failed reports whether an attempt with this member has failed. It belongs to the running round.
	failed bool
	round  atomic.Pointer[round] // the latest round of which it was a member
}

// reads reports whether m is a read.
func (m *member) reads() bool { return m.req.Update == nil }

// add reports whether m may start at once; otherwise next starts it later. ok is false if too many members are running
// or queued.
func (l *queues) add(partition string, m *member, most int64) (first, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= most {
		return false, false
	}
	l.count++
	waiting, busy := l.queues[partition]
	if !busy {
		if l.queues == nil {
			l.queues = map[string][]*member{}
		}
		// An empty queue is stored, because a present key means that a round of the partition is running.
		l.queues[partition] = nil
		return true, true
	}
	l.queues[partition] = append(waiting, m)
	return false, true
}

// putBack puts members of the running round at the head of the queue.
func (l *queues) putBack(partition string, members []*member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The members go in front of those that arrived later. The slice is copied, because a round may hold a part of
	// the old one. The members are still counted as in flight.
	l.queues[partition] = append(append(make([]*member, 0, len(members)+len(l.queues[partition])), members...),
		l.queues[partition]...)
}

// regroup returns the members of the running round, to which it adds members that wait and fit into the round.
func (l *queues) regroup(partition string, members []*member, limits *Limits) []*member {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The capacity is cut off, so that the running round's own slice is not overwritten.
	all := append(members[:len(members):len(members)], l.queues[partition]...)
	// The members of the running round stay even if they exceed the limits.
	n := max(together(all, limits), len(members))
	l.queues[partition] = all[n:]
	return all[:n:n]
}

// withdraw removes a queued member; it returns false if the member is not queued.
func (l *queues) withdraw(partition string, m *member) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.queues[partition]
	i := slices.Index(waiting, m)
	if i < 0 {
		// The member is in a round, which decides whether it can still be canceled.
		return false
	}
	l.queues[partition] = slices.Delete(slices.Clone(waiting), i, i+1) // a round may hold a part of the slice
	l.count--
	return true
}

// answered subtracts members that are no longer executed.
func (l *queues) answered(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count -= int64(n)
	invariant.Check(l.count >= 0, "paxos: more requests end than began")
}

// next ends the running round. It returns the members of the next one, whose capacity is cut off; nil means that the
// queue is empty.
func (l *queues) next(partition string, limits *Limits) []*member {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.queues[partition]
	if len(waiting) == 0 {
		// The next request finds no running round and starts one.
		delete(l.queues, partition)
		return nil
	}
	n := together(waiting, limits)
	l.queues[partition] = waiting[n:]
	return waiting[:n:n]
}

// together returns how many members at the head of the queue fit into one round. The round ends before the first that
// does not fit, so that no member is overtaken.
func together(waiting []*member, limits *Limits) int {
	first := waiting[0].req
	if !Joinable(first.Command) {
		// A command that is not Joinable gets its own round.
		return 1
	}
	var change *CASRequest // the first that may change data
	n, slices := 0, 0
	for _, m := range waiting {
		slices += len(m.req.Command.Slices)
		// Members of one round share the votes, so their serial levels are equal.
		if n == limits.Round || n > 0 && slices > limits.RoundSlices || m.req.Serial != first.Serial ||
			!Joinable(m.req.Command) {
			break
		}
		if !m.reads() {
			if change == nil {
				change = m.req
			}
			// One commit has one level. Reads are content with any.
			if m.req.Consistency != change.Consistency {
				break
			}
		}
		n++
	}
	// A single member may exceed the limits.
	return max(n, 1)
}
