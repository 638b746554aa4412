package counters

import (
	"errors"

	"cqld/coordinator"
	"cqld/counters/shard"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
)

// leading is the state machine of a group: updates of one partition at one level that are led together.
//
//	begun ─▶ reading ─ read: all pages ─▶ writing ─ applied ─▶ replicating ─ replicated ─▶ over
//	            └ an error, or no other replica ─────────────────────────────────────────────▲
//
// The next group of the partition may begin when this one is replicating or over.
type leading struct {
	state   groupState
	level   ring.Consistency
	updates []*ledUpdate // nil after they were answered
	change  shard.Change
	rows    *scan.Cursor     // the shards to be read
	cmd     *row.ReadCommand // the current read, if reading
	durable bool             // the new sums are on this node's disk
}

// groupState is the state of a leading.
type groupState uint8

const (
	groupIdle        groupState = iota // before the first event
	groupReading                       // the storage reads the shards
	groupWriting                       // the storage writes the new sums
	groupReplicating                   // the coordinator writes the new sums to the other replicas
	groupOver                          // the updates are answered
)

// groupEventKind is the kind of a groupEvent.
type groupEventKind uint8

const (
	// groupBegun is the first event.
	groupBegun groupEventKind = iota
	// groupRead is a page of a groupAsk, or its failure.
	groupRead
	// groupApplied is the outcome of a groupApply.
	groupApplied
	// groupReplicated is the outcome of a groupReplicate.
	groupReplicated
	// groupFailed means that another event of the group has panicked.
	groupFailed
)

// groupEvent is an input of a leading.
type groupEvent struct {
	kind     groupEventKind
	now      int64            // begun: seconds since 1970
	cmd      *row.ReadCommand // read: of the groupAsk
	page     []byte           // read; it is valid during the step
	alone    bool             // applied: no other replica has the partition
	blockFor int              // replicated: the acknowledgements that the level requires, if err is not nil
	err      error
}

// groupEffectKind is the kind of a groupEffect.
type groupEffectKind uint8

const (
	// groupAsk reads a page of the shards from this node's storage. Its event is groupRead.
	groupAsk groupEffectKind = iota
	// groupApply writes the new sums to this node's storage. Its event is groupApplied. The shell computes the sums
	// from the change, because their timestamp comes from the clock.
	groupApply
	// groupReplicate writes the new sums, which this node has, to the other replicas. Its event is groupReplicated.
	groupReplicate
	// groupNote counts a timeout.
	groupNote
	// groupAnswer answers updates. It happens once.
	groupAnswer
	// groupPass permits the next group of the partition. It happens once.
	groupPass
)

// groupEffect is an output of a leading.
type groupEffect struct {
	kind    groupEffectKind
	cmd     *row.ReadCommand // ask
	updates []*ledUpdate     // answer
	err     error            // answer
}

// groupEffects is the number of effects of a step that need no allocation: an answer and a pass.
const groupEffects = 2

// step takes an event and appends its effects. It neither sends, locks, waits nor calls back.
func (g *leading) step(ev *groupEvent, out []groupEffect) []groupEffect {
	switch ev.kind {
	case groupBegun:
		return g.begin(ev.now, out)
	case groupRead:
		// A page that is not awaited is a duplicate, or follows a panic.
		if g.state == groupReading && ev.cmd == g.cmd {
			return g.read(ev, out)
		}
	case groupApplied:
		if g.state == groupWriting {
			return g.applied(ev, out)
		}
	case groupReplicated:
		if g.state == groupReplicating {
			return g.replicated(ev, out)
		}
	case groupFailed:
		// The shell permits the next group, unless this group has done so.
		if g.state != groupOver {
			return g.answer(ev.err, out)
		}
	}
	return out
}

// begin reads the shards that the updates change.
func (g *leading) begin(now int64, out []groupEffect) []groupEffect {
	first := g.updates[0]
	g.level = first.Consistency
	for _, u := range g.updates {
		g.checkUpdate(u)
		if err := g.change.Add(u.Mutation); err != nil {
			return g.conclude(&coordinator.ReplicaFailure{Message: err.Error()}, out)
		}
	}
	g.change.Merge()
	g.rows = g.change.Scan(first.Mutation, now)
	return g.proceed(out)
}

// proceed reads the next page, or writes the new sums if all shards are read. A group of deletions reads nothing.
func (g *leading) proceed(out []groupEffect) []groupEffect {
	cmd := new(row.ReadCommand)
	if g.rows.Next(cmd) {
		g.state, g.cmd = groupReading, cmd
		return append(out, groupEffect{kind: groupAsk, cmd: cmd})
	}
	g.state, g.cmd = groupWriting, nil
	return append(out, groupEffect{kind: groupApply})
}

// read handles a page of the shards, or its failure.
func (g *leading) read(ev *groupEvent, out []groupEffect) []groupEffect {
	err := ev.err
	if err == nil {
		err = g.change.Take(ev.page, g.rows)
	}
	if err != nil {
		return g.conclude(err, out)
	}
	return g.proceed(out)
}

// applied handles the result of the write on this node. No other replica may receive the sums before, because after a
// crash the next sums are computed from the stored ones.
func (g *leading) applied(ev *groupEvent, out []groupEffect) []groupEffect {
	g.durable = ev.err == nil
	if ev.err != nil {
		return g.conclude(ev.err, out)
	}
	if ev.alone {
		return g.conclude(nil, out)
	}
	return g.replicate(out)
}

// replicate sends the new sums to the other replicas, while the next updates are led.
func (g *leading) replicate(out []groupEffect) []groupEffect {
	g.checkReplicate()
	g.state = groupReplicating
	return append(out, groupEffect{kind: groupReplicate}, groupEffect{kind: groupPass})
}

// replicated handles the result of the write to the other replicas.
func (g *leading) replicated(ev *groupEvent, out []groupEffect) []groupEffect {
	if ev.err == nil || !errors.Is(ev.err, coordinator.ErrNotSent) {
		return g.answer(ev.err, out)
	}
	// The sums were not sent to the other replicas, but this node has counted the updates.
	out = append(out, groupEffect{kind: groupNote})
	return g.answer(&coordinator.WriteTimeout{
		Consistency: g.level,
		Received:    1,
		BlockFor:    ev.blockFor,
		Type:        coordinator.WriteCounter,
	}, out)
}

// conclude answers the updates if no other node participates: after a failure on this node, or because it is the only
// replica.
func (g *leading) conclude(err error, out []groupEffect) []groupEffect {
	return append(g.answer(err, out), groupEffect{kind: groupPass})
}

// answer ends the group.
func (g *leading) answer(err error, out []groupEffect) []groupEffect {
	updates := g.updates
	g.state, g.updates, g.rows, g.cmd = groupOver, nil, nil, nil
	return append(out, groupEffect{kind: groupAnswer, updates: updates, err: err})
}

// same reports whether two updates belong to the same partition.
func (u *ledUpdate) same(o *ledUpdate) bool {
	return u.Mutation.Table == o.Mutation.Table && u.Mutation.Key.Compare(o.Mutation.Key) == 0
}
