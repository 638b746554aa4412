package paxos

import (
	"cqld/row"
	"cqld/schema"
)

// An acceptor keeps the states of the partitions it was asked about last in memory: its row is written
// three times in a round, and the more often it was written since the last flush, the longer reading it
// takes. What is in memory is what is on disk: a state is kept when its write is durable, by who holds the
// partition's turn. Whoever writes such rows past the turns (streams, truncations) makes all of it void.

const (
	// shardStates is how many states a shard keeps: 32,768 in all 64, of half a KiB each, which are 16 MiB.
	shardStates = 512
	// shardUpdates bounds the bytes of what was accepted and is not decided yet: that of a whole round, and
	// others. It is 80 MiB for all, when each shard has one of a whole round.
	shardUpdates = 1280 << 10
)

// remembered is what is in memory of a partition's state.
type remembered struct {
	acceptorState
	ok bool
}

// withState runs step with the partition's state when that is in memory, and in a worker without it when it must be
// read. The partition's turn is held. refuse is called instead when too much waits for a worker; bytes is what step
// holds.
func (a *Acceptor) withState(line string, bytes int, step func(remembered), refuse func(error)) {
	if s, ok := a.recall(line, a.generation.Load()); ok {
		step(remembered{s, true})
		return
	}
	a.replica.Block(bytes, func() { step(remembered{}) }, refuse)
}

// known is the state of a partition: what withState found, or else what is in memory or on disk. whole says that it
// must have the update of what was decided.
func (a *Acceptor) known(have *remembered, line string, table *schema.Table, key row.PartitionKey, whole bool) (s acceptorState, generation uint64, err error) {
	s, generation, ok := have.acceptorState, have.generation, have.ok
	if !ok {
		generation = a.generation.Load()
		s, ok = a.recall(line, generation)
	}
	if ok && !(whole && s.elsewhere) {
		s.floor = a.floor(table)
		return s, generation, nil
	}
	s, err = a.state(table, key)
	return s, generation, err
}

// recall is the state that is in memory, unless it is of an earlier generation.
func (a *Acceptor) recall(line string, generation uint64) (acceptorState, bool) {
	shard := a.shard(line)
	shard.Lock()
	defer shard.Unlock()
	if s := shard.states[line]; s != nil && s.generation == generation {
		return *s, true
	}
	return acceptorState{}, false
}

// remember keeps a state that was derived from one of a generation. The partition's turn is held.
func (a *Acceptor) remember(line string, s acceptorState, generation uint64) {
	if a.forgetful != nil {
		return
	}
	if !s.accepted.Ballot.After(s.commit.Ballot) {
		s.accepted = Proposal{}
	}
	if len(s.commit.Update) > 0 {
		s.commit.Update, s.elsewhere = nil, true
	}
	shard := a.shard(line)
	shard.Lock()
	defer shard.Unlock()
	if a.generation.Load() != generation {
		return // it is void, and so is what was there
	}
	kept, grows := shard.states[line], len(s.accepted.Update)
	if kept != nil {
		grows -= len(kept.accepted.Update)
	}
	if shard.states == nil || kept == nil && len(shard.states) >= shardStates || shard.updateBytes+grows > shardUpdates {
		shard.states, shard.updateBytes = map[string]*acceptorState{}, 0
		kept, grows = nil, len(s.accepted.Update)
	}
	if kept == nil {
		kept = new(acceptorState)
		shard.states[line] = kept
	}
	s.generation = generation
	*kept = s
	shard.updateBytes += grows
}

// doubt forgets a state: a write of it failed, and may have happened or not.
func (a *Acceptor) doubt(line string) {
	shard := a.shard(line)
	shard.Lock()
	defer shard.Unlock()
	if kept := shard.states[line]; kept != nil {
		shard.updateBytes -= len(kept.accepted.Update)
		delete(shard.states, line)
	}
}

// Reload implements replica.PaxosState. It comes after the write.
func (a *Acceptor) Reload() {
	a.generation.Add(1)
	for i := range a.shards {
		shard := &a.shards[i]
		shard.Lock()
		shard.states, shard.updateBytes = nil, 0
		shard.Unlock()
	}
}
