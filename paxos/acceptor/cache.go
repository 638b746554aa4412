package acceptor

import (
	"fmt"

	"cqld/paxos/ballot"
	"cqld/row"
	"cqld/schema"
)

// An acceptor caches the states of recently used partitions. A round writes the state's row three times, and a read of
// the row becomes slower with each write since the last flush. A cached state equals the state on disk: it is stored
// when its write is durable, by the running step of the partition. Writes of such rows outside the partition's queue
// (streams, truncations) invalidate the whole cache.

const (
	// shardStates is the maximum number of states in a shard: 32,768 in all 64 shards, of half a KiB each, or 16 MiB.
	shardStates = 512
	// shardUpdates bounds the bytes of accepted proposals that are not decided: those of a full round, and of smaller
	// ones. The total is 80 MiB, if each shard has a full round.
	shardUpdates = 1280 << 10
)

// remembered is the cached state of a partition; ok is false if there is none.
type remembered struct {
	acceptorState
	ok bool
}

// withState runs step with the partition's cached state, or, if the state must be read, in a worker without it. The
// caller runs a step of the partition. If the queue of the workers is full, withState calls refuse instead. bytes is
// the memory that step retains.
func (a *Acceptor) withState(partition string, bytes int, step func(remembered), refuse func(error)) {
	if have := a.remembered(partition); have.ok {
		step(have)
		return
	}
	a.replica.Block(bytes, func() { step(remembered{}) }, refuse)
}

// remembered returns the partition's cached state. If there is none, a worker must read it. The caller runs a step of
// the partition.
func (a *Acceptor) remembered(partition string) remembered {
	s, ok := a.recall(partition, a.generation.Load())
	return remembered{s, ok}
}

// known returns the state of a partition: have, the cached one or the one on disk. whole means that the state
// must contain the update of the latest commit.
func (a *Acceptor) known(have *remembered, partition string, table *schema.Table, key row.PartitionKey,
	whole bool) (s acceptorState, generation uint64, err error) {
	s, generation, ok := have.acceptorState, have.generation, have.ok
	if !ok {
		generation = a.generation.Load()
		s, ok = a.recall(partition, generation)
	}
	if ok && !(whole && s.elsewhere) {
		s.floor = a.floor(table)
		return s, generation, nil
	}
	if ok {
		s, err = a.reread(&s, generation, table, key)
	} else {
		s, err = a.state(table, key)
	}
	return s, generation, err
}

// reread reads the state whose cached copy of a generation lacks the update of its commit. A state on disk with earlier
// ballots has lost what this acceptor acknowledged, so no request may be answered from it. Only the low bound, and
// changes that begin a generation, remove ballots from the disk.
func (a *Acceptor) reread(
	cached *acceptorState, generation uint64, table *schema.Table, key row.PartitionKey,
) (acceptorState, error) {
	s, err := a.state(table, key)
	if err == nil && cached.stored().After(s.latest()) && a.generation.Load() == generation {
		err = fmt.Errorf("paxos: the state of partition %x of %s.%s on disk is older than what this node "+
			"acknowledged: ballot %v instead of %v", key.Bytes, table.Keyspace, table.Name, s.latest(), cached.stored())
	}
	return s, err
}

// recall returns the cached state, unless it is of an earlier generation.
func (a *Acceptor) recall(partition string, generation uint64) (acceptorState, bool) {
	shard := a.shard(partition)
	shard.Lock()
	defer shard.Unlock()
	if s := shard.states[partition]; s != nil && s.generation == generation {
		return *s, true
	}
	return acceptorState{}, false
}

// remember caches a state that was derived from one of a generation. The caller runs a step of the partition.
func (a *Acceptor) remember(partition string, s acceptorState, generation uint64) {
	if a.forgetful != nil {
		return
	}
	if !s.accepted.Ballot.After(s.commit.Ballot) {
		s.accepted = ballot.Proposal{}
	}
	if len(s.commit.Update) > 0 {
		s.commit.Update, s.elsewhere = nil, true
	}
	shard := a.shard(partition)
	shard.Lock()
	defer shard.Unlock()
	if a.generation.Load() != generation {
		return // s is invalid, and so is the cached state
	}
	kept, grows := shard.states[partition], len(s.accepted.Update)
	if kept != nil {
		grows -= len(kept.accepted.Update)
	}
	if shard.states == nil || kept == nil && len(shard.states) >= shardStates ||
		shard.updateBytes+grows > shardUpdates {
		shard.states, shard.updateBytes = map[string]*acceptorState{}, 0
		kept, grows = nil, len(s.accepted.Update)
	}
	if kept != nil && kept.generation == generation {
		kept.checkNext(&s)
	}
	if kept == nil {
		kept = new(acceptorState)
		shard.states[partition] = kept
	}
	s.generation = generation
	*kept = s
	shard.updateBytes += grows
}

// doubt removes a state from the cache: a write of it failed, and may or may not be on disk.
func (a *Acceptor) doubt(partition string) {
	shard := a.shard(partition)
	shard.Lock()
	defer shard.Unlock()
	if kept := shard.states[partition]; kept != nil {
		shard.updateBytes -= len(kept.accepted.Update)
		delete(shard.states, partition)
	}
}

// Reload implements replica.PaxosState. It is called after the write.
func (a *Acceptor) Reload() {
	a.generation.Add(1)
	for i := range a.shards {
		shard := &a.shards[i]
		shard.Lock()
		shard.states, shard.updateBytes = nil, 0
		shard.Unlock()
	}
}
