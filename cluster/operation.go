package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"cqld/cluster/liveness"
	"cqld/cluster/metadata"
	"cqld/ring"
)

// Operations starts, advances and aborts the operations that change the ring: nodes join, leave, move, or are removed
// or replaced. The loop calls methods that begin with Start, and their done functions; it must not call the others.
type Operations struct {
	opts      *Options
	loop      *loop
	view      *view
	driver    *driver
	proposals *proposals
	progress  *progress
	majority  *majority
	dead      *liveness.Dead

	steps map[uint64]operationStep // what operations wait for, by operation id
	waits atomic.Pointer[map[uint64]string]
}

// Decommission starts to hand this node's ranges over to the other nodes, and returns the id of the operation. When the
// operation has ended, this node is no longer a member.
func (p *Operations) Decommission(ctx context.Context, force bool) (uint64, error) {
	return p.begin(ctx, p.leave(force))
}

// StartDecommission is Decommission without blocking. The loop calls done when the operation has begun.
func (p *Operations) StartDecommission(force bool, done func(error)) {
	p.proposals.start(&metadata.Command{Begin: p.leave(force)}, done)
}

// leave returns the command that begins this node's departure.
func (p *Operations) leave(force bool) *metadata.Begin {
	return &metadata.Begin{Kind: ring.Leave, Node: p.view.self(), Force: force, Hands: true}
}

// RemoveNode starts to copy the ranges of a dead node to other nodes.
func (p *Operations) RemoveNode(ctx context.Context, id ring.NodeID, force bool) (uint64, error) {
	if id == p.view.self() {
		return 0, &metadata.Refused{Reason: "a node cannot remove itself: use 'cqld ctl decommission'"}
	}
	// A live node has the newest data of its ranges, and can hand them over itself.
	if p.view.alive(id) {
		return 0, &metadata.Refused{Reason: fmt.Sprintf("%s is alive: run 'cqld ctl decommission' on it",
			p.view.metadata().Topology.NameOf(id))}
	}
	return p.begin(ctx, &metadata.Begin{Kind: ring.Remove, Node: id, Force: force})
}

// Move starts to change this node's tokens: to the given ones or, if there are none, to the same number of tokens,
// allocated for balanced ownership.
func (p *Operations) Move(ctx context.Context, tokens []ring.Token) (uint64, error) {
	for {
		t := p.view.metadata().Topology
		cmd := &metadata.Begin{Kind: ring.Move, Node: p.view.self(), Tokens: tokens, Epoch: t.Epoch()}
		if len(tokens) == 0 {
			self := t.Node(p.view.self())
			// This node's current tokens must not influence the allocation.
			others := slices.DeleteFunc(slices.Clone(t.Nodes()), func(n *ring.Node) bool { return n.ID == self.ID })
			cmd.Tokens = ring.Allocate(ring.NewTopology(0, others), self.Datacenter, self.Rack, len(self.Tokens),
				p.opts.ReplicationFactor)
		}
		id, err := p.begin(ctx, cmd)
		var refused *metadata.Refused
		if errors.As(err, &refused) && refused.Reason == metadata.ErrStaleTopology.Reason {
			// The ring changed before the command was applied, so the tokens are allocated again.
			continue
		}
		return id, err
	}
}

// Reassign starts to change the owners of tokens, in ascending order of the tokens, and returns the operation's id. The
// id is zero if the operation has ended already, because it changes no replica set.
func (p *Operations) Reassign(ctx context.Context, transfers []ring.Transfer) (uint64, error) {
	return p.begin(ctx, reassignment(transfers))
}

// StartReassign is Reassign without blocking.
func (p *Operations) StartReassign(transfers []ring.Transfer, done func(error)) {
	// A split or a merge has ended when done is called; other transfers have begun.
	p.proposals.start(&metadata.Command{Begin: reassignment(transfers)}, done)
}

// reassignment returns the command that begins a Reassign.
func reassignment(transfers []ring.Transfer) *metadata.Begin {
	// Without an epoch: the transfers are checked against the ring to which they are applied.
	return &metadata.Begin{Kind: ring.Reassign, Node: ring.NodeOf(transfers), Transfers: transfers}
}

// How often an operation is attempted while a node drops data of ranges that it lost, and the pause between attempts.
const (
	cleanTries = 50
	cleanPause = 100 * time.Millisecond
)

// begin proposes an operation of a member and returns its id.
func (p *Operations) begin(ctx context.Context, cmd *metadata.Begin) (uint64, error) {
	// An operation's id is the epoch of its start, so later operations have greater ids.
	before := p.view.metadata().Topology.Epoch()
	err := p.proposals.propose(ctx, &metadata.Command{Begin: cmd})
	for try := 0; err != nil; try++ {
		// The data that nodes lost by the previous operation is dropped shortly.
		var refused *metadata.Refused
		if !errors.As(err, &refused) || !refused.Busy || len(p.view.metadata().Topology.Operations()) > 0 ||
			try == cleanTries {
			return 0, err
		}
		if err := p.loop.pause(ctx, cleanPause); err != nil {
			return 0, err
		}
		err = p.proposals.propose(ctx, &metadata.Command{Begin: cmd})
	}
	for _, o := range p.view.metadata().Topology.Operations() {
		if o.Node == cmd.Node && o.Kind == cmd.Kind && o.ID > before {
			return o.ID, nil
		}
	}
	return 0, nil // it has already ended
}

// Abort undoes an operation that has not ended. Writes that were acknowledged or read are kept.
func (p *Operations) Abort(ctx context.Context, operation uint64) error {
	return p.proposals.propose(ctx, &metadata.Command{Abort: &metadata.Abort{Operation: operation}})
}

// Await returns when an operation has ended, completed or aborted.
func (p *Operations) Await(ctx context.Context, operation uint64) error {
	for p.view.metadata().Topology.Operation(operation) != nil {
		if err := p.loop.pause(ctx, joinPause); err != nil {
			return err
		}
	}
	return nil
}

// StartStreamed reports that this node has all ranges that it gains by an operation. The loop calls done.
func (p *Operations) StartStreamed(operation uint64, short []ring.Shortfall, done func(error)) {
	p.proposals.start(&metadata.Command{Streamed: &metadata.Streamed{Operation: operation, Node: p.view.self(),
		Short: short}}, done)
}

// StartMove is Move without blocking, with tokens that were chosen for the current topology.
func (p *Operations) StartMove(tokens []ring.Token, done func(error)) {
	p.proposals.start(&metadata.Command{Begin: &metadata.Begin{Kind: ring.Move, Node: p.view.self(), Tokens: tokens,
		Epoch: p.view.metadata().Topology.Epoch()}}, done)
}

// StartRemoveNode is RemoveNode without blocking.
func (p *Operations) StartRemoveNode(id ring.NodeID, force bool, done func(error)) {
	if p.view.alive(id) {
		done(&metadata.Refused{Reason: fmt.Sprintf("%s is alive", p.view.metadata().Topology.NameOf(id))})
		return
	}
	p.proposals.start(&metadata.Command{Begin: &metadata.Begin{Kind: ring.Remove, Node: id, Force: force}}, done)
}

// StartAbort is Abort without blocking.
func (p *Operations) StartAbort(operation uint64, done func(error)) {
	p.proposals.start(&metadata.Command{Abort: &metadata.Abort{Operation: operation}}, done)
}

// StartCompared reports that this node has compared all ranges that it gains, after the operation was Known.
func (p *Operations) StartCompared(operation uint64, short []ring.Shortfall, done func(error)) {
	p.proposals.start(&metadata.Command{Compared: &metadata.Compared{Operation: operation, Node: p.view.self(),
		Short: short}}, done)
}

// StartHanded reports that this node, which is leaving, has handed over its batches and hints.
func (p *Operations) StartHanded(operation uint64, done func(error)) {
	p.proposals.start(&metadata.Command{Handed: &metadata.Handed{Operation: operation}}, done)
}

// StartCleaned reports that this node has dropped the ranges that it no longer held at epoch.
func (p *Operations) StartCleaned(epoch uint64, done func(error)) {
	p.proposals.start(&metadata.Command{Cleaned: &metadata.Cleaned{Node: p.view.self(), Epoch: epoch}}, done)
}

// advance runs on the leader. It marks an operation as Known when enough nodes have applied its second phase, and ends
// an operation when its gained ranges have been compared and its batches and hints handed over.
func (p *Operations) advance() {
	if !p.loop.due(advanceEvery) || !p.driver.leads() {
		return
	}
	m := p.view.metadata()
	p.removeLost(m)
	for _, o := range m.Topology.Operations() {
		cmd := &metadata.Command{End: &metadata.End{Operation: o.ID}}
		var dead []ring.NodeID
		// Checked rarely, because it computes the gained ranges.
		if p.loop.ticks%excuseEvery == 0 {
			dead = p.excusable(m, o)
		}
		switch {
		case len(dead) > 0:
			p.opts.Logger.Warn("operation does not wait for dead nodes; repair them when they are up", "operation",
				o.ID, "kind", o.Kind,
				"nodes", p.view.names(dead))
			cmd = &metadata.Command{Excuse: &metadata.Excuse{Operation: o.ID, Nodes: dead}}
		// The reports of the nodes (Streamed) end the first phase, not this loop.
		case o.Phase != ring.Switching || p.driver.applied < o.Switched:
			continue
		case (o.Known || len(o.Gaining) == 0) && (len(o.Awaits()) > 0 || o.Hands && !o.Handed):
			continue
		case !o.Known && !p.known(m, o):
			continue
		case !o.Known && len(o.Gaining) > 0:
			cmd = &metadata.Command{Known: &metadata.Known{Operation: o.ID}}
		}
		// If the command is lost, the next check proposes it again.
		p.proposals.start(cmd, func(err error) {
			if err != nil {
				p.opts.Logger.Debug("operation not advanced", "operation", o.ID, "err", err)
			}
		})
	}
}

// advanceEvery is the number of ticks between two checks of the operations.
const advanceEvery = 2

// known reports whether all live nodes have applied the switch of an operation, and the dead nodes that have not can no
// longer form a quorum of readers in the first phase.
func (p *Operations) known(m *metadata.Metadata, o *ring.Operation) bool {
	live, dead := p.unaware(m, o)
	// unaware returns dead nodes only if all live nodes have applied the switch.
	return len(live) == 0 && len(dead) == 0
}

// unaware returns the live nodes that have not applied the switch of an operation, or otherwise the dead nodes that
// have not and could still form a quorum of readers in the first phase (metadata.StaleQuorum).
func (p *Operations) unaware(m *metadata.Metadata, o *ring.Operation) (live, dead []ring.NodeID) {
	for _, n := range m.Topology.Nodes() {
		if p.progress.of(n.ID) < o.Switched && p.view.alive(n.ID) {
			live = append(live, n.ID)
		}
	}
	if len(live) > 0 {
		// Live nodes are about to apply it. Dead nodes matter only after that.
		return live, nil
	}
	// A node that was declared lost cannot read from the members.
	behind := func(id ring.NodeID) bool { return p.progress.of(id) < o.Switched && !m.IsLost(id) }
	return nil, m.StaleQuorum(behind)
}

// StartRegained reports that all ranges of a keyspace that this node holds were repaired after the change of its
// replication, or of the ring, at the epoch changed. The loop calls done.
func (p *Operations) StartRegained(keyspace string, changed uint64, done func(error)) {
	p.proposals.start(&metadata.Command{Regained: &metadata.Regained{Node: p.view.self(), Keyspace: keyspace,
		Changed: changed}}, done)
}

// StartSettled reports that this node has dropped the data that it held by the replications of a keyspace up to
// epoch. The loop calls done.
func (p *Operations) StartSettled(keyspace string, epoch uint64, done func(error)) {
	p.proposals.start(&metadata.Command{Settled: &metadata.Settled{Node: p.view.self(), Keyspace: keyspace,
		Epoch: epoch}}, done)
}
