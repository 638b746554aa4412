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
	// shardUpdates bounds the bytes of accepted proposals that are not decided: one full round (1 MiB) and several
	// small ones. The total is 80 MiB, if each shard has a full round.
	shardUpdates = 1280 << 10
)

// remembered is the cached state of a partition; ok is false if there is none.
type cachedState struct {
	partitionState
	ok bool
}

// withState runs step with the partition's cached state or, if the state must be read, in a worker without it. The
// caller runs a step of the partition. If the queue of the workers is full, withState calls refuse instead. bytes is
// the memory that step retains until it runs.
func (a *Acceptor) withState(partition string, bytes int, step func(cachedState), refuse func(error)) {
	if have := a.cached(partition); have.ok {
		step(have)
		return
	}
	// The worker looks the state up again in load: no other step can change it meanwhile, but Reload may invalidate
	// it.
	a.replica.Block(bytes, func() { step(cachedState{}) }, refuse)
}

// cached returns the partition's cached state. If there is none, a worker must read it. The caller runs a step of the
// partition.
func (a *Acceptor) cached(partition string) cachedState {
	s, ok := a.lookUp(partition, a.generation.Load())
	return cachedState{s, ok}
}

// load returns the state of a partition: have if it is ok, else the cached state, else the state on disk. whole means
// that the state must contain the update of the latest commit. The caller runs a step of the partition and passes the
// generation on to store.
func (a *Acceptor) load(have *cachedState, partition string, table *schema.Table, key row.PartitionKey,
	whole bool) (s partitionState, generation uint64, err error) {
	s, generation, ok := have.partitionState, have.generation, have.ok
	if !ok {
		// The generation is loaded before the state is read: if rows change during the read, store discards the
		// state.
		generation = a.generation.Load()
		s, ok = a.lookUp(partition, generation)
	}
	if ok && !(whole && s.updateOnDisk) {
		// The low bound may have risen since the state was cached.
		s.lowBound = a.lowBound(table)
		return s, generation, nil
	}
	if ok {
		// The cached state is complete except for the update of the decision.
		s, err = a.reread(&s, generation, table, key)
	} else {
		s, err = a.state(table, key)
	}
	return s, generation, err
}

// reread reads the state whose cached copy of a generation lacks the update of its commit. A state on disk with
// earlier ballots has lost what this acceptor acknowledged, so no request may be answered from it. Only the low
// bound, and changes that increment the generation, remove ballots from the disk.
func (a *Acceptor) reread(
	cached *partitionState, generation uint64, table *schema.Table, key row.PartitionKey,
) (partitionState, error) {
	s, err := a.state(table, key)
	if err == nil && cached.stored().After(s.latest()) && a.generation.Load() == generation {
		// Requests of the partition fail until Reload: an answer could contradict what this acceptor has confirmed.
		err = fmt.Errorf("paxos: the state of partition %x of %s.%s on disk is older than what this node "+
			"acknowledged: ballot %v instead of %v", key.Bytes, table.Keyspace, table.Name, s.latest(), cached.stored())
	}
	return s, err
}

// lookUp returns a copy of the cached state, unless that belongs to an earlier generation. The updates in it are
// shared and immutable.
func (a *Acceptor) lookUp(partition string, generation uint64) (partitionState, bool) {
	shard := a.shard(partition)
	shard.Lock()
	defer shard.Unlock()
	if s := shard.states[partition]; s != nil && s.generation == generation {
		// The request changes its copy of the state, and stores it in the cache once its write is durable.
		return *s, true
	}
	return partitionState{}, false
}

// store caches a state that was derived from a state of the given generation, unless the generation has changed
// since. The caller runs a step of the partition. The cache retains the update of an accepted proposal.
func (a *Acceptor) store(partition string, s partitionState, generation uint64) {
	if !s.accepted.Ballot.After(s.commit.Ballot) {
		// The proposal was decided, or is void because a later one was. Its update would only use memory.
		s.accepted = ballot.Proposal{}
	}
	if len(s.commit.Update) > 0 {
		// Only an acceptor that lacks the decision needs the update, and such requests read it from disk.
		s.commit.Update, s.updateOnDisk = nil, true
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
	// The shard is emptied rather than searched for its oldest state: a round reads each state once after that, and no
	// request pays for a list in the order of use.
	if shard.states == nil || kept == nil && len(shard.states) >= shardStates ||
		shard.updateBytes+grows > shardUpdates {
		shard.states, shard.updateBytes = map[string]*partitionState{}, 0
		kept, grows = nil, len(s.accepted.Update)
	}
	if kept != nil && kept.generation == generation {
		// Within a generation, each state is the successor of the cached one.
		kept.checkNext(&s)
	}
	if kept == nil {
		kept = new(partitionState)
		shard.states[partition] = kept
	}
	s.generation = generation
	// Replaced in place, so a partition that is changed often allocates nothing.
	*kept = s
	shard.updateBytes += grows
}

// evict removes a state from the cache: a write of it failed, and may or may not be on disk.
func (a *Acceptor) evict(partition string) {
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
	// The generation is incremented first, so that a request that has read rows from before the change cannot store
	// its state in a shard that was just emptied.
	a.generation.Add(1)
	for i := range a.shards {
		shard := &a.shards[i]
		shard.Lock()
		shard.states, shard.updateBytes = nil, 0
		shard.Unlock()
	}
}
