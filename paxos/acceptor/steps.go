package acceptor

import (
	"sync"

	"cqld/paxos/contention"
)

// queueMax bounds the queued requests for one partition at an acceptor: a hundred coordinators with a few
// attempts each.
const queueMax = 512

// steps runs the steps of each partition one after the other, and caches the states of partitions.
type steps struct{ shards [64]acceptorShard }

// acceptorShard contains the partitions whose state is being changed, with the queued steps of each.
type acceptorShard struct {
	sync.Mutex
	busy map[string][]func()
	// states caches states (cache.go).
	states      map[string]*partitionState
	updateBytes int
}

// submit runs step if no other step of the partition is running, and queues it otherwise; it returns false if the queue
// is full. step ends with a call of release. A queued step runs in the goroutine that calls release, which may be
// storage's committer: the step must not block.
func (q *steps) submit(key string, step func()) bool {
	s := q.shard(key)
	s.Lock()
	waiting, busy := s.busy[key]
	if busy {
		defer s.Unlock()
		if len(waiting) >= queueMax {
			return false
		}
		// The closure retains its request, so bounding the queue also bounds memory.
		s.busy[key] = append(waiting, step)
		return true
	}
	s.acquireLocked(key)
	s.Unlock()
	// The step runs without the lock of the shard, because it takes other locks and may call release before it
	// returns.
	step()
	return true
}

// tryAcquire is submit without a step: it returns false if another step of the partition is running, and otherwise
// the caller runs its own, which ends with a call of release. The common case thus needs no closure.
func (q *steps) tryAcquire(key string) bool {
	s := q.shard(key)
	s.Lock()
	defer s.Unlock()
	if _, busy := s.busy[key]; busy {
		return false
	}
	s.acquireLocked(key)
	return true
}

// acquireLocked marks a partition as one with a running step.
func (s *acceptorShard) acquireLocked(key string) {
	if s.busy == nil {
		s.busy = map[string][]func(){}
	}
	s.busy[key] = nil
}

// release ends a step and runs the next one in the queue.
func (q *steps) release(key string) {
	s := q.shard(key)
	s.Lock()
	waiting := s.busy[key]
	if len(waiting) == 0 {
		delete(s.busy, key)
		s.Unlock()
		return
	}
	// The partition stays busy: the next step takes it over, so no request that arrives now overtakes it.
	s.busy[key] = waiting[1:]
	s.Unlock()
	// The next step runs on this stack. The stack does not grow with the queue, because storage's committer releases
	// steps that write.
	waiting[0]()
}

// shard returns the shard of a partition. The number of shards is a multiple of the cores of large machines, so that
// requests of different partitions rarely wait for one lock.
func (q *steps) shard(key string) *acceptorShard {
	return &q.shards[contention.Hash(key)%uint32(len(q.shards))]
}
