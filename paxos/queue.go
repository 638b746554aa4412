package paxos

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/schema"
)

// queues are the conditional changes and serial reads of each partition that wait at this node for the
// round under way. They go together in the next one: among themselves they need no contention.
//
//	line of a partition:   [round under way: a b c]   d e f g h      next: d e f g, then h
type queues struct {
	mu    sync.Mutex
	lines map[string][]*member // who waits behind the round under way
	count int64
}

// member is a conditional change, or a serial read, on its way through its partition's line.
type member struct {
	req      *CASRequest
	table    *schema.Table
	entered  time.Duration // when it came
	deadline time.Duration // of contention
	done     func(applied bool, page []byte, err error)
	answered bool                  // of the round it is in
	round    atomic.Pointer[round] // the latest that it was a member of
}

// reads says whether m changes nothing in any case.
func (m *member) reads() bool { return m.req.Update == nil }

// enter says whether m may begin at once; otherwise leave will let it. ok is false when too many
// are under way or wait.
func (l *queues) enter(line string, m *member, most int64) (first, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= most {
		return false, false
	}
	l.count++
	waiting, busy := l.lines[line]
	if !busy {
		if l.lines == nil {
			l.lines = map[string][]*member{}
		}
		l.lines[line] = nil
		return true, true
	}
	l.lines[line] = append(waiting, m)
	return false, true
}

// putBack makes members of the round under way the first of those that wait.
func (l *queues) putBack(line string, members []*member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[line] = append(append(make([]*member, 0, len(members)+len(l.lines[line])), members...), l.lines[line]...)
}

// withdraw takes out a member that waits; false when it does not.
func (l *queues) withdraw(line string, m *member) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.lines[line]
	i := slices.Index(waiting, m)
	if i < 0 {
		return false
	}
	l.lines[line] = slices.Delete(slices.Clone(waiting), i, i+1) // a round may have a part of the slice
	l.count--
	return true
}

// answered counts members that are no more under way.
func (l *queues) answered(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count -= int64(n)
}

// leave ends the round under way: those who go together next, or nobody.
func (l *queues) leave(line string, limits *Limits) []*member {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.lines[line]
	if len(waiting) == 0 {
		delete(l.lines, line)
		return nil
	}
	n := together(waiting, limits)
	l.lines[line] = waiting[n:]
	return waiting[:n:n]
}

// together is how many of those who wait can go in one round: it ends before the first that cannot, so
// that nobody is overtaken.
func together(waiting []*member, limits *Limits) int {
	first := waiting[0].req
	if !Joinable(first.Command) {
		return 1
	}
	var change *CASRequest // the first that may change something
	n, slices := 0, 0
	for _, m := range waiting {
		slices += len(m.req.Command.Slices)
		if n == limits.Round || n > 0 && slices > limits.RoundSlices || m.req.Serial != first.Serial || !Joinable(m.req.Command) {
			break
		}
		if !m.reads() {
			if change == nil {
				change = m.req
			}
			if m.req.Consistency != change.Consistency {
				break
			}
		}
		n++
	}
	return max(n, 1)
}
