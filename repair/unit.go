package repair

import (
	"errors"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
	"cqld/schema"
)

// phase is what a unit does.
type phase uint8

const (
	// phaseListing lists the proposals of the replicas, one replica after the other.
	phaseListing phase = iota
	// phaseSettling executes a round of Paxos for each listed proposal.
	phaseSettling
	// phaseSizing hashes the range as one leaf, in at most one step.
	phaseSizing
	// phaseComparing hashes the leaves of the range.
	phaseComparing
	// phaseReading reads a leaf that differs at all replicas, page by page.
	phaseReading
	// phaseVerifying hashes the leaf that was read.
	phaseVerifying
	// phaseForgetting purges the Paxos state of the replicas, one replica after the other.
	phaseForgetting
	// phaseNotifying sends the notices.
	phaseNotifying
)

// unit repairs one range with one replica set. Its methods are parts of the machine's step.
//
//	listing ◀──▶ settling      reading ◀──▶ verifying
//	   │                         ▲ │ next leaf
//	   ▼                         │ ▼
//	sizing ──▶ comparing ──▶ nextLeaf ──▶ forgetting ──▶ notifying ──▶ done
//
// Phases are left out if there is no Paxos state, if the range is small, if nothing differs, or if the job only
// compares.
type unit struct {
	m        *machine
	table    *schema.Table
	topology *ring.Topology
	tokens   ring.Range
	set      ring.ReplicaSet
	nodes    []ring.NodeID // the replicas in the job's scope
	session  uint64
	began    time.Time

	phase   phase
	request request // of phases in which one request is outstanding; the pause at the end of a tree
	tree    *tree   // sizing, comparing, verifying
	// differing are the leaves that differ; the first is being read.
	differing []ring.Range
	// round counts the reads of the present leaf.
	round   int
	leaf    *scan.Cursor // reading; belongs to the outstanding effect
	notices []*notified  // notifying

	purge *purge // of Paxos state; nil when there is none, or it could not be settled
	until int64  // seconds; all replicas have every write from before then
}

// tree contains the hashes of a range on all replicas.
type tree struct {
	tokens ring.Range
	leaves int
	nodes  []*treeNode
}

// treeNode contains the hashes of one replica.
//
// The replicas hash the range at the same time, each step by step.
type treeNode struct {
	request
	node   ring.NodeID
	hashes []LeafHash
	after  []byte
	size   int64
	done   bool // has hashed the range
	// stepped reports that more than one step is needed.
	stepped bool
}

// notified is a replica that gets a notice.
type notified struct {
	request
	node ring.NodeID
	done bool // has answered, or is given up
}

// newUnit returns the unit of a range, which has one replica set in t: its first token determines the replicas.
func newUnit(m *machine, table *schema.Table, t *ring.Topology, tokens ring.Range) *unit {
	u := &unit{m: m, table: table, topology: t, tokens: tokens, session: m.sessions.Add(1), began: m.now,
		set: t.Placement(table.Replication).Replicas(tokens.Start + 1)}
	u.nodes = m.job.Scope.Of(t, u.set.Natural)
	u.until = u.began.Add(-m.limits.Margin).Unix()
	return u
}

// fail ends the job. node is zero when the failure is not of one node.
func (u *unit) fail(node ring.NodeID, err error, out []effect) []effect {
	return u.m.unitDone(u, &Failed{Range: u.tokens, Node: node, Err: err, name: u.topology.NameOf(node)}, out)
}

// begin checks that all replicas in the scope can participate.
func (u *unit) begin(out []effect) []effect {
	m := u.m
	// The replicas change while an operation is in progress; unitDone counts the range, or ends the job.
	if len(u.set.Pending) > 0 {
		return m.unitDone(u, ErrMoving, out)
	}
	if len(u.set.Natural) == 0 || !m.job.Scope.comparable(u.topology, u.set.Natural) {
		return m.unitDone(u, nil, out) // there is no replica, or nothing to compare
	}
	// All replicas in the scope must be alive: a repair of some would prove nothing, and the reads at ALL would fail.
	var down []ring.NodeID
	for _, node := range u.nodes {
		if node != m.view.Self() && !m.view.Alive(node) {
			down = append(down, node)
		}
	}
	if len(down) > 0 {
		return m.unitDone(u, &Unavailable{Range: u.tokens, Nodes: down, names: addresses(m.view, down)}, out)
	}
	if m.job.comparesOnly() {
		return u.compare(out)
	}
	if lowBound := m.view.PaxosFloor(u.table.StorageID); lowBound > 0 {
		return u.settle(lowBound, out)
	}
	if m.conditional { // there may be Paxos state, and no low bound yet
		u.keep()
	}
	return u.compare(out)
}

// step handles the event of an outstanding request. It ignores all other events, which are late.
func (u *unit) step(ev *event, out []effect) []effect {
	// take compares the number with the outstanding one, and clears it.
	if u.request.take(ev.number) {
		// A pause and an answer end the same request, so the kind of the event decides.
		if ev.kind == eventResumed {
			return u.proceed(out)
		}
		return u.answered(ev, out)
	}
	if u.tree != nil {
		for _, n := range u.tree.nodes {
			if n.take(ev.number) {
				return u.hashed(n, ev, out)
			}
		}
	}
	for _, n := range u.notices {
		if n.take(ev.number) {
			return u.noticed(n, ev, out)
		}
	}
	return out
}

// answered handles the answer of a phase in which one request is outstanding.
func (u *unit) answered(ev *event, out []effect) []effect {
	//exhaustive:ignore
	switch u.phase {
	case phaseListing, phaseForgetting:
		return u.purged(ev, out)
	case phaseSettling:
		return u.settled(ev, out)
	case phaseReading:
		return u.pageRead(ev, out)
	}
	return out
}

// proceed continues after a pause: with the next request of the phase, or with the next phase.
func (u *unit) proceed(out []effect) []effect {
	//exhaustive:enforce
	switch u.phase {
	case phaseListing, phaseSettling:
		return u.list(out)
	case phaseSizing:
		return u.sized(out)
	case phaseComparing:
		return u.compared(out)
	case phaseReading:
		return u.readPage(out)
	case phaseVerifying:
		return u.verified(out)
	case phaseForgetting:
		return u.forget(out)
	case phaseNotifying: // its replicas pause, each for itself
	}
	return out
}

// alone reports whether there is nothing to compare.
func (u *unit) alone() bool { return u.m.job.PaxosOnly && len(u.set.Natural) == 1 }

// compare starts the comparison of the replicas.
func (u *unit) compare(out []effect) []effect {
	if u.alone() {
		return u.nextLeaf(out)
	}
	// One step hashes a small range. For a larger one, it returns the size, which determines the number of leaves.
	return u.hash(phaseSizing, u.tokens, 1, out)
}

// sized decides after the first step of each replica: the range is hashed, or it is large.
func (u *unit) sized(out []effect) []effect {
	// The largest replica determines the number of leaves; all must hash the same ones.
	size, stepped := int64(0), false
	for _, n := range u.tree.nodes {
		size, stepped = max(size, n.size), stepped || n.stepped
	}
	if !stepped {
		return u.compared(out)
	}
	leaves := int(min(max(2, size/u.m.limits.LeafBytes), int64(u.m.limits.LeavesMax)))
	return u.hash(phaseComparing, u.tokens, leaves, out)
}

// hash starts to build a tree.
func (u *unit) hash(p phase, tokens ring.Range, leaves int, out []effect) []effect {
	// A new tree: answers to requests of the previous one are late, and their numbers are not found.
	u.phase, u.tree = p, &tree{tokens: tokens, leaves: leaves}
	for _, node := range u.nodes {
		n := &treeNode{node: node, hashes: make([]LeafHash, leaves)}
		u.tree.nodes = append(u.tree.nodes, n)
		out = u.hashNext(n, out)
	}
	return out
}

// hashNext requests the next step of one replica.
func (u *unit) hashNext(n *treeNode, out []effect) []effect {
	req := &HashRequest{Session: u.session, Epoch: u.topology.Epoch(), Table: u.table.StorageID, Tokens: u.tree.tokens,
		Leaves: u.tree.leaves, Now: u.began.Unix(), After: n.after}
	return u.m.await(&n.request, effect{kind: effectHash, node: n.node, hash: req}, out)
}

// hashed handles the answer of one replica, or the end of its pause.
func (u *unit) hashed(n *treeNode, ev *event, out []effect) []effect {
	checkStep(n)
	switch s := &ev.hashes; {
	case ev.kind == eventResumed:
		return u.hashNext(n, out)
	case ev.err != nil:
		return u.again(&n.request, n.node, ev, out)
	default:
		// Steps of one replica add up; a leaf may be cut by the end of a step.
		for i, leaf := range s.Leaves {
			if leaf < 0 || leaf >= u.tree.leaves {
				return u.fail(n.node, errors.New("hashes of leaves that were not requested"), out)
			}
			n.hashes[leaf].Add(s.Hashes[i])
		}
		u.m.report.Bytes += s.Scanned
		n.attempts, n.after, n.size = 0, s.Next, max(n.size, s.Size)
		if s.Next != nil && u.phase != phaseSizing {
			return u.m.spend(&n.request, s.Scanned, out)
		}
		n.done, n.stepped = true, s.Next != nil
		// Other replicas are still hashing. The bytes are only counted; the last replica waits for the budget.
		if u.tree.open() > 0 {
			return append(out, effect{kind: effectSpend, bytes: s.Scanned})
		}
		return u.m.spend(&u.request, s.Scanned, out)
	}
}

// open returns the number of replicas that have not hashed the range.
func (t *tree) open() (n int) {
	for _, node := range t.nodes {
		if !node.done {
			n++
		}
	}
	return n
}

// again repeats a request after a pause, or ends the unit. If a replica refuses because the ring has changed, the range
// is started again. While the table is truncated it repeats without a limit: a truncation ends after
// coordinator.Limits.TruncationMost.
func (u *unit) again(r *request, node ring.NodeID, ev *event, out []effect) []effect {
	m := u.m
	r.attempts++
	var refusal *coordinator.NotReplica
	switch refused := errors.As(ev.err, &refusal); {
	case m.view.Schema().Dropped(u.table.StorageID):
		return m.unitDone(u, &coordinator.UnknownTable{Table: u.table.StorageID}, out)
	case ev.truncating: // its end is certain, and determines how to continue
		// Not counted as an attempt.
		r.attempts--
		return m.pause(r, m.limits.RetryPause, out)
	case r.attempts >= m.limits.Attempts, refused && m.refusals >= m.limits.Attempts:
		return u.fail(node, ev.err, out)
	case refused:
		return m.refused(out)
	}
	return m.retry(r, out)
}

// differs reports whether the replicas' hashes of a leaf differ.
func (t *tree) differs(leaf int) bool {
	for _, n := range t.nodes[1:] {
		if n.hashes[leaf] != t.nodes[0].hashes[leaf] {
			return true
		}
	}
	return false
}

// compared determines the leaves that differ.
func (u *unit) compared(out []effect) []effect {
	t := u.tree
	u.tree = nil
	u.m.report.Leaves += t.leaves
	for i := range t.leaves {
		if t.differs(i) {
			u.differing = append(u.differing, t.tokens.Part(i, t.leaves))
		}
	}
	checkLeaves(t.tokens, u.differing)
	u.m.report.Differing += len(u.differing)
	return u.nextLeaf(out)
}

// nextLeaf reads the next leaf that differs. When none is left, it continues with the purge or the notices.
func (u *unit) nextLeaf(out []effect) []effect {
	switch {
	case len(u.differing) > 0:
		u.round = 1
		return u.readLeaf(out)
	case u.purge != nil:
		return u.forget(out)
	case u.alone() || u.m.job.comparesOnly():
		return u.m.unitDone(u, nil, out)
	}
	return u.notify(out)
}

// readLeaf reads a leaf at all replicas in the scope, page by page.
func (u *unit) readLeaf(out []effect) []effect {
	u.phase = phaseReading
	u.leaf = &scan.Cursor{Tokens: u.differing[0], Command: row.ReadCommand{
		Table: u.table.StorageID, Slices: []row.Slice{row.AllRows()},
		Limits: row.Limits{Rows: u.m.limits.PageRows}, Now: u.m.now.Unix(),
	}}
	return u.readPage(out)
}

// readPage reads the next page of a leaf, whose rows are not needed: the read repairs them.
func (u *unit) readPage(out []effect) []effect {
	e := effect{kind: effectRead, leaf: u.leaf}
	// Without a list, a read at ALL also contacts replicas outside of the scope.
	if u.m.job.Scope.Restricted() {
		e.only = u.nodes
	}
	return u.m.await(&u.request, e, out)
}

// pageRead handles the end of the read of a page. The cursor is after the page.
func (u *unit) pageRead(ev *event, out []effect) []effect {
	if ev.err != nil {
		return u.again(&u.request, 0, ev, out)
	}
	u.request.attempts = 0
	if ev.more {
		return u.m.spend(&u.request, ev.bytes*int64(len(u.nodes)), out)
	}
	u.leaf = nil
	return u.hash(phaseVerifying, u.differing[0], 1, out)
}

// verified decides after the hashes of a leaf that was read.
func (u *unit) verified(out []effect) []effect {
	differs := u.tree.differs(0)
	u.tree = nil
	// Writes may have arrived between the hashes of two replicas, so the leaf is read again.
	if differs && u.round < u.m.limits.Rounds {
		u.round++
		return u.readLeaf(out)
	}
	if differs {
		// The reads have repaired everything from before they began. What differs is newer, and later repairs cover
		// it.
		u.m.report.Unsettled++
	}
	u.differing = u.differing[1:]
	return u.nextLeaf(out)
}

// notify sends the notice to all replicas.
func (u *unit) notify(out []effect) []effect {
	u.checkNotice()
	u.phase = phaseNotifying
	for _, node := range u.nodes {
		n := &notified{node: node}
		u.notices = append(u.notices, n)
		out = u.sendNotice(n, out)
	}
	return out
}

func (u *unit) sendNotice(n *notified, out []effect) []effect {
	notice := &Notice{Session: u.session, Table: u.table.StorageID, Tokens: u.tokens, Until: u.until}
	return u.m.await(&n.request, effect{kind: effectNotify, node: n.node, notice: notice}, out)
}

// noticed handles the answer of one replica, or the end of its pause.
func (u *unit) noticed(n *notified, ev *event, out []effect) []effect {
	invariant.Check(!n.done, "repair: a notice has two answers")
	switch {
	case ev.kind == eventResumed:
		return u.sendNotice(n, out)
	case ev.err != nil:
		if n.attempts++; n.attempts < u.m.limits.Attempts {
			return u.m.retry(&n.request, out)
		}
		u.m.report.Unnoticed++ // the replica keeps its tombstones longer
	}
	// Also without an answer: a notice that does not arrive must not keep the job from its end.
	n.done = true
	if slices.ContainsFunc(u.notices, func(n *notified) bool { return !n.done }) {
		return out
	}
	return u.m.unitDone(u, nil, out)
}
