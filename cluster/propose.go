package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"cqld/auth"
	"cqld/cluster/metadata"
	"cqld/internal/invariant"
	"cqld/internal/uuid"
	"cqld/schema"
)

// proposal is a command in progress. It is proposed repeatedly until this node has applied it; then it waits for the
// live nodes.
type proposal struct {
	id    metadata.CommandID
	data  []byte
	index uint64 // index at which it was applied; zero before
	sent  uint64 // tick of the last proposal
	done  func(error)
	// shared means that even a refusal is returned only after every live node has applied the commands that caused it.
	shared bool
	// members means that it also waits for members that this node considers dead. One that has not applied a TRUNCATE
	// may be alive for clients, and would still read and write the rows that were truncated.
	members bool
	result  error // once index is set
	// abandoned means that no caller waits for it: the command is not proposed again.
	abandoned atomic.Bool
}

// ErrUnknownOutcome means that a change was decided while this node was behind, so that the change may have been
// refused.
var ErrUnknownOutcome = errors.New("cluster: the change was decided, but this node does not know the result: check " +
	"whether it was applied")

// retryTicks is the number of ticks after which a command is proposed again: Raft drops proposals while there is no
// leader.
const retryTicks = 10

// proposals are the commands of this node that are in progress.
//
//	start ─▶ proposed, again every retryTicks ── applied here ─▶ waits ── applied by all live nodes ─▶ done(result)
type proposals struct {
	opts     *Options
	loop     *loop
	driver   *driver
	progress *progress
	majority *majority

	open map[metadata.CommandID]*proposal // only the loop uses it
}

// start proposes cmd with a new id. The loop calls done. stop abandons the proposal.
func (s *proposals) start(cmd *metadata.Command, done func(error)) (stop func()) {
	return s.begin(cmd, &proposal{done: done})
}

// startSchema is start for a change of the schema.
func (s *proposals) startSchema(cmd *metadata.Command, change schema.Change, done func(error)) (stop func()) {
	// What was truncated must not be read or written after the answer.
	_, truncates := change.(*schema.TruncateTable)
	return s.begin(cmd, &proposal{done: done, shared: true, members: truncates})
}

// begin is start for a new proposal p of cmd.
func (s *proposals) begin(cmd *metadata.Command, p *proposal) (stop func()) {
	posted := s.loop.post(func() {
		// Drawn in the loop, so simulations draw random numbers in a fixed order.
		cmd.ID = metadata.CommandID(uuid.Random(s.opts.Rand))
		p.id = cmd.ID
		var err error
		if p.data, err = cmd.Encode(); err != nil {
			// A command that cannot be encoded is never applied.
			p.done(fmt.Errorf("cluster: encode command: %w", err))
			return
		}
		// Registered before it is sent, so that resolve finds it.
		s.open[p.id] = p
		s.send(p)
	})
	if !posted {
		p.done(errQueueFull)
	}
	return func() { p.abandoned.Store(true) }
}

// startAwait calls done in the loop when every live node has applied the log up to this node's index. stop abandons it.
func (s *proposals) startAwait(done func(error)) (stop func()) {
	p := &proposal{done: done}
	posted := s.loop.post(func() {
		if !s.driver.started() || s.progress.everywhere(s.driver.applied) {
			done(nil)
			return
		}
		// It waits like a command that was applied at the current index, and is never proposed.
		p.id, p.index = metadata.CommandID(uuid.Random(s.opts.Rand)), s.driver.applied
		s.open[p.id] = p
	})
	if !posted {
		done(errQueueFull)
	}
	return func() { p.abandoned.Store(true) }
}

// propose proposes cmd and returns its result. If no majority of the voters is alive, it returns an error instead. The
// loop must not call it.
func (s *proposals) propose(ctx context.Context, cmd *metadata.Command) error {
	return s.wait(ctx, func(done func(error)) func() { return s.start(cmd, done) })
}

// wait calls start, unless no majority of the voters is alive, and waits for the result.
func (s *proposals) wait(ctx context.Context, start func(done func(error)) (stop func())) error {
	if err := s.majority.await(ctx); err != nil {
		return err
	}
	return s.loop.wait(ctx, start)
}

// send proposes p to Raft, which forwards it to the leader.
func (s *proposals) send(p *proposal) {
	p.sent = s.loop.ticks
	if !s.driver.started() {
		return
	}
	if err := s.driver.node.Propose(p.data); err != nil {
		s.opts.Logger.Debug("proposal dropped; it will be retried", "err", err)
	}
}

// retry proposes undecided commands again. The loop calls it on every tick.
func (s *proposals) retry() {
	for _, p := range s.sorted() {
		switch {
		case p.abandoned.Load():
			delete(s.open, p.id)
		case p.index == 0 && s.loop.ticks-p.sent >= retryTicks:
			s.send(p)
		}
	}
}

// sorted returns the proposals sorted by id, independently of the map's order.
func (s *proposals) sorted() []*proposal {
	out := make([]*proposal, 0, len(s.open))
	for _, p := range s.open {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *proposal) int { return slices.Compare(a.id[:], b.id[:]) })
	return out
}

// resolve reports the result of a command to its proposer, if this node proposed it.
func (s *proposals) resolve(id metadata.CommandID, index uint64, result error) {
	p := s.open[id]
	invariant.Check(index > 0 && index <= s.driver.applied, "cluster: a proposal is decided before it is applied")
	// Another node proposed it, or it was committed twice.
	if p == nil || p.index != 0 {
		return
	}
	if result != nil && !p.shared {
		// A refusal changes nothing, so other nodes need not apply anything first.
		delete(s.open, id)
		p.done(result)
		return
	}
	p.index, p.result = index, result
}

// resolveRecent resolves proposals that a snapshot lists as decided. A snapshot does not contain their results.
func (s *proposals) resolveRecent(m *metadata.Metadata) {
	for _, id := range m.Recent() {
		s.resolve(id, m.Epoch, ErrUnknownOutcome)
	}
}

// complete completes the proposals that every live node, or every member, has applied.
func (s *proposals) complete() {
	// Sorted, for repeatable simulations.
	for _, p := range s.sorted() {
		if p.index != 0 && s.progress.everywhere(p.index) && (!p.members || s.progress.byMembers(p.index)) {
			invariant.Check(p.index <= s.driver.applied, "cluster: a proposal is answered before it is applied")
			// Removed first, because done may start another proposal.
			delete(s.open, p.id)
			p.done(p.result)
		}
	}
}

// ProposeSchema changes the schema. It returns when every live node has applied the change. If the change is refused,
// it returns schema's typed error when every live node has applied the earlier changes. It returns a
// *refused.Unavailable, and proposes nothing, if no majority of the voters is alive. If ctx ends first, the outcome is
// unknown. A TRUNCATE also waits for members that this node considers dead.
func (c *Cluster) ProposeSchema(ctx context.Context, change schema.Change) error {
	return c.ProposeSchemaAs(ctx, change, "")
}

// ProposeSchemaAs is ProposeSchema, and grants the role creator all permissions on the keyspaces and tables that the
// change creates, in the same entry of the log. Empty means no role.
func (c *Cluster) ProposeSchemaAs(ctx context.Context, change schema.Change, creator string) error {
	return c.proposals.wait(ctx, func(done func(error)) func() {
		// The id of the command is drawn when it is posted.
		return c.proposals.startSchema(c.schemaCommand(change, creator), change, done)
	})
}

// StartSchema is ProposeSchema without blocking. The loop calls done.
func (c *Cluster) StartSchema(change schema.Change, done func(error)) {
	c.proposals.startSchema(c.schemaCommand(change, ""), change, done)
}

// schemaCommand returns the command of a change. It contains the proposer's time, so all nodes apply the same time.
func (c *Cluster) schemaCommand(change schema.Change, creator string) *metadata.Command {
	return &metadata.Command{Schema: &metadata.SchemaChange{
		Change:  schema.EncodeChange(change),
		At:      c.opts.Clock.Now().Unix(),
		Creator: creator,
	}}
}

// ProposeRoles changes the role directory. It returns when every live node has applied the change and enforces it, or
// returns *auth.Invalid if the change was refused. ProposeSchema documents the other errors.
func (c *Cluster) ProposeRoles(ctx context.Context, change auth.Change) error {
	b, err := auth.EncodeChange(change)
	if err != nil {
		return err
	}
	return c.proposals.propose(ctx, &metadata.Command{Roles: &metadata.RolesChange{Change: b}})
}

// StartRoles is ProposeRoles without blocking. The loop calls done.
func (c *Cluster) StartRoles(change auth.Change, done func(error)) {
	b, err := auth.EncodeChange(change)
	if err != nil {
		done(err)
		return
	}
	c.proposals.start(&metadata.Command{Roles: &metadata.RolesChange{Change: b}}, done)
}

// ProposeBackupSchedule adds or removes a backup schedule. It returns when every live node has applied the change.
func (c *Cluster) ProposeBackupSchedule(ctx context.Context, change *metadata.ScheduleChange) error {
	// All live nodes apply it before the operator gets a response, because any of them may run the schedule next.
	return c.proposals.propose(ctx, &metadata.Command{BackupSchedule: change})
}

// StartPaxosFloor raises a table's Paxos low bound to a ballot's time (µs). The loop calls done when every live node
// has applied it.
func (c *Cluster) StartPaxosFloor(table schema.StorageID, micros int64, done func(error)) {
	c.proposals.start(&metadata.Command{PaxosFloor: &metadata.PaxosFloor{Table: table, Micros: micros}}, done)
}

// AwaitSchema returns when every live node has applied the schema that this node has.
func (c *Cluster) AwaitSchema(ctx context.Context) error {
	return c.loop.wait(ctx, c.proposals.startAwait)
}
