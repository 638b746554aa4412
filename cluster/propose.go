package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"cqld/schema"
)

// proposal is a command in progress. Until this node has applied it, it is proposed repeatedly; then it waits for the
// live nodes.
type proposal struct {
	id    CommandID
	data  []byte
	index uint64 // index at which it was applied; zero before
	sent  uint64 // tick of the last proposal
	done  func(error)
	// shared means that a refusal, too, is returned only after every live node has applied the commands that caused it.
	shared bool
	result error // once index is set
	// abandoned means that no caller waits for it: the command is not proposed again.
	abandoned atomic.Bool
}

// ErrUnknownOutcome means that a change was decided while this node was behind, so that the change may have been
// refused.
var ErrUnknownOutcome = errors.New("cluster: the change was decided, but this node does not know the result: check " +
	"whether it was applied")

var errStopped = errors.New("cluster: this node is stopping")

// retryTicks is the number of ticks after which a command is proposed again: Raft drops proposals while there is no
// leader.
const retryTicks = 10

// ProposeSchema changes the schema. It returns when every live node has applied the change. If the change is refused,
// it returns schema's typed error when every live node has applied the earlier changes. It returns a
// *schema.Unavailable, and proposes nothing, if no majority of the voters is alive. If ctx ends first, the outcome is
// unknown.
func (c *Cluster) ProposeSchema(ctx context.Context, change schema.Change) error {
	return c.ProposeSchemaAs(ctx, change, "")
}

// ProposeSchemaAs is ProposeSchema, and grants the role creator all permissions on the keyspaces and tables that the
// change creates, in the same entry of the log. Empty means no role.
func (c *Cluster) ProposeSchemaAs(ctx context.Context, change schema.Change, creator string) error {
	cmd := c.schemaCommand(change)
	cmd.Creator = creator
	return c.proposeNew(ctx, &command{Schema: cmd})
}

// StartSchema is ProposeSchema without blocking. The loop calls done.
func (c *Cluster) StartSchema(change schema.Change, done func(error)) {
	c.start(&command{Schema: c.schemaCommand(change)}, done)
}

func (c *Cluster) schemaCommand(change schema.Change) *schemaCommand {
	return &schemaCommand{Change: schema.EncodeChange(change), At: c.opts.Clock.Now().Unix()}
}

// StartPaxosFloor raises a table's Paxos low bound to a ballot's time (µs). The loop calls done when every live node
// has applied it.
func (c *Cluster) StartPaxosFloor(table schema.StorageID, micros int64, done func(error)) {
	c.start(&command{PaxosFloor: &paxosFloorCommand{table, micros}}, done)
}

// start proposes cmd with a new id. The loop calls done. stop abandons the proposal.
func (c *Cluster) start(cmd *command, done func(error)) (stop func()) {
	p := &proposal{done: done, shared: cmd.Schema != nil}
	posted := c.post(func() {
		cmd.ID = CommandID(c.randomUUID())
		p.id = cmd.ID
		var err error
		if p.data, err = cmd.encode(); err != nil {
			done(fmt.Errorf("cluster: encode command: %w", err))
			return
		}
		c.enter(p)
	})
	if !posted {
		done(errQueueFull)
	}
	return func() { p.abandoned.Store(true) }
}

// proposeNew assigns an id to the command and proposes it, unless no majority of the voters is alive.
func (c *Cluster) proposeNew(ctx context.Context, cmd *command) error {
	if err := c.awaitMajority(ctx); err != nil {
		return err
	}
	return c.wait(ctx, func(done func(error)) func() { return c.start(cmd, done) })
}

// wait returns when the work that begin started has called done.
func (c *Cluster) wait(ctx context.Context, begin func(done func(error)) (stop func())) error {
	result := make(chan error, 1)
	stop := begin(func(err error) { result <- err })
	select {
	case err := <-result:
		return err
	case <-c.stopped:
		return errStopped
	case <-ctx.Done():
		stop()
		return fmt.Errorf("cluster: the change was not committed in time, but may still be: %w", ctx.Err())
	}
}

// errQueueFull means that nothing was proposed.
var errQueueFull = errors.New("cluster: too many metadata changes are waiting")

func (c *Cluster) enter(p *proposal) {
	c.proposals[p.id] = p
	c.send(p)
}

func (c *Cluster) send(p *proposal) {
	p.sent = c.ticks
	if c.driver == nil {
		return
	}
	if err := c.driver.node.Propose(p.data); err != nil {
		c.opts.Logger.Debug("proposal dropped; it will be retried", "err", err)
	}
}

func (c *Cluster) retryProposals() {
	for _, p := range c.sortedProposals() {
		switch {
		case p.abandoned.Load():
			delete(c.proposals, p.id)
		case p.index == 0 && c.ticks-p.sent >= retryTicks:
			c.send(p)
		}
	}
}

// sortedProposals returns the proposals in an order that does not depend on the map's.
func (c *Cluster) sortedProposals() []*proposal {
	out := make([]*proposal, 0, len(c.proposals))
	for _, p := range c.proposals {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *proposal) int { return slices.Compare(a.id[:], b.id[:]) })
	return out
}

// resolve reports the result of a command to its proposer, if that is on this node.
func (c *Cluster) resolve(id CommandID, index uint64, result error) {
	p := c.proposals[id]
	if p == nil || p.index != 0 {
		return
	}
	if result != nil && !p.shared {
		delete(c.proposals, id)
		p.done(result)
		return
	}
	p.index, p.result = index, result
}

// resolveRecent resolves proposals that a snapshot lists as decided. A snapshot does not contain their results.
func (c *Cluster) resolveRecent(m *Metadata) {
	for _, id := range m.recent {
		c.resolve(id, m.Epoch, ErrUnknownOutcome)
	}
}

// checkProposals completes the proposals that every live node has applied.
func (c *Cluster) checkProposals() {
	for _, p := range c.sortedProposals() {
		if p.index != 0 && c.everywhere(p.index) {
			delete(c.proposals, p.id)
			p.done(p.result)
		}
	}
}

// everywhere reports whether all live members have applied the log up to index.
func (c *Cluster) everywhere(index uint64) bool {
	for _, n := range c.Metadata().Topology.Nodes() {
		if c.Alive(n.ID) && c.applied[n.ID] < index {
			return false
		}
	}
	return true
}
