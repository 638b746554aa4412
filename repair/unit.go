package repair

import (
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
	"cqld/schema"
)

// unit repairs one range with one replica set. Its methods are events of its job.
type unit struct {
	j        *Run
	r        *Repairer
	table    *schema.Table
	topology *ring.Topology
	tokens   ring.Range
	set      ring.ReplicaSet
	nodes    []ring.NodeID // the replicas in the job's scope
	session  uint64
	began    time.Time
	ended    bool

	tree *tree // under construction
	// differing are the leaves that differ; the first is being read.
	differing []ring.Range
	round     int
	waiting   int // notices without a reply

	purge *purge // of Paxos state; nil when there is none, or it could not be settled
	until int64  // seconds; all replicas have every write from before then
}

// tree contains the hashes of a range on all replicas.
type tree struct {
	tokens ring.Range
	leaves int
	nodes  []*treeNode
	open   int // nodes that have not finished
	then   func(t *tree)
}

type treeNode struct {
	node     ring.NodeID
	hashes   []LeafHash
	after    []byte
	attempts int
	size     int64
	stepped  bool // more than one step was needed
}

func newUnit(j *Run, table *schema.Table, t *ring.Topology, tokens ring.Range) *unit {
	u := &unit{
		j: j, r: j.r, table: table, topology: t, tokens: tokens, session: j.r.session.Add(1), began: j.r.clock.Now(),
		set: t.Placement(table.Replication).Replicas(tokens.Start + 1),
	}
	u.nodes = j.job.Scope.Of(t, u.set.Natural)
	u.until = u.began.Add(-u.r.limits.Margin).Unix()
	return u
}

func (u *unit) end(err error) {
	if !u.ended {
		u.ended = true
		u.j.unitDone(u, err)
	}
}

// fail ends the unit. node is zero when the failure is not of one node.
func (u *unit) fail(node ring.NodeID, err error) {
	u.end(&Failed{Range: u.tokens, Node: node, Err: err, name: u.topology.NameOf(node)})
}

// begin checks that all replicas in the scope can participate.
func (u *unit) begin() {
	if len(u.set.Pending) > 0 {
		u.end(ErrMoving)
		return
	}
	if len(u.set.Natural) == 0 || !u.j.job.Scope.comparable(u.topology, u.set.Natural) {
		u.end(nil) // there is no replica, or nothing to compare
		return
	}
	var down []ring.NodeID
	for _, node := range u.nodes {
		if node != u.r.view.Self() && !u.r.view.Alive(node) {
			down = append(down, node)
		}
	}
	if len(down) > 0 {
		u.end(&Unavailable{Range: u.tokens, Nodes: down, names: u.r.addresses(down)})
		return
	}
	if u.j.job.comparesOnly() {
		u.compare()
		return
	}
	if lowBound := u.r.view.PaxosFloor(u.table.StorageID); lowBound > 0 {
		u.settle(lowBound)
		return
	}
	if u.j.conditional { // there may be Paxos state, and no low bound yet
		u.keep()
	}
	u.compare()
}

// alone reports whether there is nothing to compare.
func (u *unit) alone() bool { return u.j.job.PaxosOnly && len(u.set.Natural) == 1 }

// compare starts the comparison of the replicas.
func (u *unit) compare() {
	if u.alone() {
		u.nextLeaf()
		return
	}
	// One step hashes a small range. For a larger one, it returns the size, which determines the number of leaves.
	u.hash(u.tokens, 1, u.sized)
}

// sized is the event of the first hashes, of the whole range as one leaf.
func (u *unit) sized(t *tree) {
	size, stepped := int64(0), false
	for _, n := range t.nodes {
		size, stepped = max(size, n.size), stepped || n.stepped
	}
	if !stepped {
		u.compared(t)
		return
	}
	leaves := int(min(max(2, size/u.r.limits.LeafBytes), int64(u.r.limits.LeavesMax)))
	u.hash(u.tokens, leaves, u.compared)
}

// hash builds a tree and calls then. A tree of the whole range with one leaf ends after its first step.
func (u *unit) hash(tokens ring.Range, leaves int, then func(*tree)) {
	t := &tree{tokens: tokens, leaves: leaves, then: then, open: len(u.nodes)}
	u.tree = t
	for _, node := range u.nodes {
		t.nodes = append(t.nodes, &treeNode{node: node, hashes: make([]LeafHash, leaves)})
	}
	for _, n := range t.nodes {
		u.step(t, n)
	}
}

// step requests the next step of one replica.
func (u *unit) step(t *tree, n *treeNode) {
	req := &HashRequest{Session: u.session, Epoch: u.topology.Epoch(), Table: u.table.StorageID, Tokens: t.tokens,
		Leaves: t.leaves, Now: u.began.Unix(), After: n.after}
	u.r.peers.Hash(n.node, req, u.r.limits.Timeout, func(s HashStep, err error) {
		u.j.events.do(func() {
			if !u.j.ended && !u.ended && u.tree == t {
				u.stepped(t, n, s, err)
			}
		})
	})
}

// stepped is the event of a step's outcome.
func (u *unit) stepped(t *tree, n *treeNode, s HashStep, err error) {
	if err != nil {
		u.again(&n.attempts, n.node, err, func() {
			if u.tree == t {
				u.step(t, n)
			}
		})
		return
	}
	for i, leaf := range s.Leaves {
		if leaf < 0 || leaf >= t.leaves {
			u.fail(n.node, errors.New("hashes of leaves that were not requested"))
			return
		}
		n.hashes[leaf].Add(s.Hashes[i])
	}
	u.j.report.Bytes += s.Scanned
	n.attempts, n.after, n.size = 0, s.Next, max(n.size, s.Size)
	wait := u.j.spend(s.Scanned)
	if s.Next != nil && (t.leaves > 1 || t.tokens != u.tokens) {
		u.j.after(wait, func() {
			if u.tree == t {
				u.step(t, n)
			}
		})
		return
	}
	n.stepped = s.Next != nil
	invariant.Check(t.open > 0, "repair: a replica has hashed a range twice")
	if t.open--; t.open == 0 {
		u.tree = nil
		u.j.after(wait, func() { t.then(t) })
	}
}

// again retries after a pause, or ends the unit. If a replica refuses because the ring has changed, the range is
// started again. While the table is truncated it retries without a limit: a truncation ends after
// coordinator.Limits.TruncationMost.
func (u *unit) again(attempts *int, node ring.NodeID, err error, try func()) {
	*attempts++
	var refusal *coordinator.NotReplica
	switch {
	case u.r.view.Schema().Dropped(u.table.StorageID):
		u.end(&coordinator.UnknownTable{Table: u.table.StorageID})
	case u.r.c.Truncating(u.table.StorageID): // its end is certain, and determines how to continue
		*attempts--
		u.j.after(u.r.limits.RetryPause, func() {
			if !u.ended {
				try()
			}
		})
	case *attempts >= u.r.limits.Attempts:
		u.fail(node, err)
	case errors.As(err, &refusal) && u.j.refusals < u.r.limits.Attempts:
		u.ended = true
		u.j.refusals++
		u.j.after(u.r.limits.RetryPause<<(u.j.refusals-1), u.j.next)
	case errors.As(err, &refusal):
		u.fail(node, err)
	default:
		u.j.after(u.r.limits.RetryPause<<(*attempts-1), func() {
			if !u.ended {
				try()
			}
		})
	}
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

// compared is the event of the tree's completion.
func (u *unit) compared(t *tree) {
	u.j.report.Leaves += t.leaves
	for i := range t.leaves {
		if t.differs(i) {
			u.differing = append(u.differing, t.tokens.Part(i, t.leaves))
		}
	}
	checkLeaves(t.tokens, u.differing)
	u.j.report.Differing += len(u.differing)
	u.nextLeaf()
}

// nextLeaf reads the next leaf that differs. When none is left, it continues with the purge or the notices.
func (u *unit) nextLeaf() {
	switch {
	case len(u.differing) > 0:
		u.round = 1
		u.readLeaf()
	case u.purge != nil:
		u.purge.forget()
	case u.alone() || u.j.job.comparesOnly():
		u.end(nil)
	default:
		u.notify()
	}
}

// readLeaf reads a leaf at all replicas in the scope, page by page.
func (u *unit) readLeaf() {
	attempts := 0
	u.readPage(&scan.Cursor{Tokens: u.differing[0], Command: row.ReadCommand{
		Table: u.table.StorageID, Slices: []row.Slice{row.AllRows()},
		Limits: row.Limits{Rows: u.r.limits.PageRows}, Now: u.r.clock.Now().Unix(), Repair: &u.j.rows,
	}}, &attempts)
}

// readPage reads the next page of a leaf, whose rows are not needed: the read repairs them.
func (u *unit) readPage(leaf *scan.Cursor, attempts *int) {
	cmd := new(row.ReadCommand)
	leaf.Next(cmd)
	req := &coordinator.ReadRequest{Command: cmd, Consistency: ring.All, Timeout: u.r.limits.Timeout}
	if u.j.job.Scope.Restricted() {
		req.Only = u.nodes
	}
	u.r.c.Read(req, func(page []byte, err error) {
		size := int64(len(page))
		if err == nil {
			err = leaf.Skip(page) // here, because the page is valid only during the call
		}
		u.j.events.do(func() {
			switch {
			case u.j.ended || u.ended:
			case err != nil:
				u.again(attempts, 0, err, func() { u.readPage(leaf, attempts) })
			case leaf.More():
				*attempts = 0
				wait := u.j.spend(size * int64(len(u.nodes)))
				u.j.after(wait, func() { u.readPage(leaf, attempts) })
			default:
				u.hash(u.differing[0], 1, u.verified)
			}
		})
	})
}

// verified is the event of a leaf's hashes after the read.
func (u *unit) verified(t *tree) {
	if t.differs(0) {
		if u.round < u.r.limits.Rounds {
			u.round++
			u.readLeaf()
			return
		}
		u.j.report.Unsettled++
	}
	u.differing = u.differing[1:]
	u.nextLeaf()
}

// notify sends the notice to all replicas.
func (u *unit) notify() {
	u.checkNotice()
	notice := &Notice{Session: u.session, Table: u.table.StorageID, Tokens: u.tokens, Until: u.until}
	u.waiting = len(u.nodes)
	for _, node := range u.nodes {
		u.sendNotice(node, notice, 1)
	}
}

func (u *unit) sendNotice(node ring.NodeID, notice *Notice, attempt int) {
	u.r.peers.Repaired(node, notice, u.r.limits.Timeout, func(err error) {
		u.j.events.do(func() {
			switch {
			case u.j.ended:
				return
			case err != nil && attempt < u.r.limits.Attempts:
				u.j.after(u.r.limits.RetryPause<<(attempt-1), func() { u.sendNotice(node, notice, attempt+1) })
				return
			case err != nil:
				u.j.report.Unnoticed++ // the replica keeps its tombstones longer
			}
			invariant.Check(u.waiting > 0, "repair: a notice has two answers")
			if u.waiting--; u.waiting == 0 {
				u.end(nil)
			}
		})
	})
}
