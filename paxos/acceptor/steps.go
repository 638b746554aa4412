package acceptor

import (
	"sync"

	"cqld/paxos/contention"
)

// acceptorQueueMax bounds the queued requests for one partition at an acceptor: a hundred coordinators with a few
// attempts each.
const acceptorQueueMax = 512

// steps runs the steps of each partition one after the other, and caches the states of partitions.
type steps struct{ shards [64]acceptorShard }

// acceptorShard contains the partitions whose state is being changed, with the queued steps of each.
type acceptorShard struct {
	sync.Mutex
	busy map[string][]func()
	// states caches states (cache.go).
	states      map[string]*acceptorState
	updateBytes int
}

// enter runs step if no other step of the partition is running, and queues it otherwise; it returns false if the queue
// is full. step ends with a call of leave. A queued step runs in the goroutine that calls leave, which may be storage's
// committer: the step must not block.
func (q *steps) enter(key string, step func()) bool {
	s := q.shard(key)
	s.Lock()
	waiting, busy := s.busy[key]
	if busy {
		defer s.Unlock()
		if len(waiting) >= acceptorQueueMax {
			return false
		}
		s.busy[key] = append(waiting, step)
		return true
	}
	s.occupy(key)
	s.Unlock()
	step()
	return true
}

// enterFree is enter without a step: it returns false if another step of the partition is running, and otherwise the
// caller runs its own. It spares the common case the closure.
func (q *steps) enterFree(key string) bool {
	s := q.shard(key)
	s.Lock()
	defer s.Unlock()
	if _, busy := s.busy[key]; busy {
		return false
	}
	s.occupy(key)
	return true
}

// occupy marks a partition as one with a running step. The shard is locked.
func (s *acceptorShard) occupy(key string) {
	if s.busy == nil {
		s.busy = map[string][]func(){}
	}
	s.busy[key] = nil
}

// leave ends a step and runs the next one in the queue.
func (q *steps) leave(key string) {
	s := q.shard(key)
	s.Lock()
	waiting := s.busy[key]
	if len(waiting) == 0 {
		delete(s.busy, key)
		s.Unlock()
		return
	}
	s.busy[key] = waiting[1:]
	s.Unlock()
	waiting[0]()
}

func (q *steps) shard(key string) *acceptorShard {
	return &q.shards[contention.Hash(key)%uint32(len(q.shards))]
}
