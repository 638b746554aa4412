package simulation

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/cluster/metadata"
	"cqld/ring"
)

// nodesMost is the maximum number of members of a simulated ring.
const nodesMost = 6

// joinNode adds a machine to the ring.
func (c *Cluster) joinNode(*Stream) {
	if len(c.present()) >= max(c.options.NodesMost, nodesMost) {
		return
	}
	n := newNode(c)
	c.nodes = append(c.nodes, n)
	n.start()
}

// leaveNode decommissions a node if enough nodes remain.
func (c *Cluster) leaveNode(r *Stream) {
	n := c.any(r)
	staying := 0
	for _, o := range c.present() {
		if o.member && !o.leaving && n.neighbours(o) {
			staying++
		}
	}
	if !n.process.serves() || n.damaged || n.leaving || staying <= n.replicasNearby() {
		return
	}
	n.leaving = true
	c.decommission(n)
}

// decommission makes a node hand over its data and leave.
func (c *Cluster) decommission(n *Node) {
	l := n.process
	l.soon(func() {
		l.requests++
		l.cluster.Operations().StartDecommission(false, func(err error) {
			l.requests--
			if err != nil {
				n.leaving = n.left(err)
				c.kernel.Trace(fmt.Sprint("leave ", n.id, err))
			}
		})
	})
}

// moveNode changes the tokens of a node.
func (c *Cluster) moveNode(r *Stream) {
	n := c.any(r)
	if !n.process.serves() || n.damaged || n.leaving {
		return
	}
	l := n.process
	tokens := make([]ring.Token, c.options.Tokens)
	for i := range tokens {
		tokens[i] = ring.Token(r.Uint64())
	}
	l.soon(func() {
		l.requests++
		l.cluster.Operations().StartMove(tokens, func(err error) {
			l.requests--
			if err != nil {
				c.kernel.Trace(fmt.Sprint("no move ", n.id, err))
				return
			}
			c.count("nodes moved")
		})
	})
}

// removeNode kills a node permanently, and makes the operator remove it from the ring.
func (c *Cluster) removeNode(r *Stream) {
	n := c.any(r)
	staying := 0
	for _, o := range c.present() {
		if o.process.serves() && !o.leaving { // a joining one may still be stopped
			staying++
		}
	}
	if !c.mayLose(n) || !n.process.serves() || staying <= c.options.Factor {
		return
	}
	c.losing = true
	id := n.process.Self()
	n.crash(true)
	n.dead = true
	c.count("nodes removed")
	c.kernel.After(c.paced(removeAfter), "operator", func() { c.remove(id) })
}

// How long the operator waits before the removal of a dead node, between two attempts, and before the abort of an
// operation that makes no progress.
const (
	removeAfter  = 2 * time.Second
	operateEvery = time.Second
	stuckAfter   = 20 * time.Second
)

// remove sends the removal of a dead node to any serving node, until it is no longer a member.
func (c *Cluster) remove(id ring.NodeID) {
	if m := c.metadata(); m != nil && m.Topology.Node(id) == nil { // nil means that all are down
		return
	}
	c.kernel.After(c.paced(operateEvery), "operator", func() { c.remove(id) })
	for _, n := range c.present() {
		if l := n.process; l.serves() {
			l.soon(func() {
				l.requests++
				l.cluster.Operations().StartRemoveNode(id, false, func(err error) {
					l.requests--
					if err != nil {
						c.kernel.Trace(fmt.Sprint("not removed ", id, err))
					}
				})
			})
			return
		}
	}
}

// members returns the node IDs of machines, except dead ones.
func (c *Cluster) members() (ids []ring.NodeID) {
	for _, n := range c.present() {
		if n.process != nil {
			ids = append(ids, n.process.Self())
		}
	}
	return ids
}

// requesting reports whether a node retries a request for an operation that has not begun, because another one is
// ending.
func (c *Cluster) requesting() bool {
	return slices.ContainsFunc(c.present(), func(n *Node) bool { return n.process != nil && n.process.requests > 0 })
}

// removed reports whether no member is permanently dead.
func (c *Cluster) removed() bool {
	ids := c.members()
	return !slices.ContainsFunc(c.metadata().Topology.Nodes(),
		func(n *ring.Node) bool { return !slices.Contains(ids, n.ID) })
}

// operate is the operator of a healed cluster: it aborts operations that cannot end because a node is permanently dead.
// Such an operation makes no progress.
func (c *Cluster) operate() {
	if c.operating {
		return
	}
	c.operating = true
	last, since := "", c.kernel.Now()
	var look func()
	look = func() {
		if c.operating = c.healed; !c.operating {
			return
		}
		c.kernel.After(c.paced(operateEvery), "operator", look)
		now := ""
		for _, o := range c.metadata().Topology.Operations() {
			now += fmt.Sprintln(o.ID, o.Phase, o.Known, o.Streamed, o.Compared)
		}
		if now != last {
			last, since = now, c.kernel.Now()
		}
		if now != "" && c.kernel.Now()-since > c.paced(stuckAfter) && !c.removed() {
			since = c.kernel.Now()
			c.count("operations aborted by the operator")
			c.abort(c.metadata().Topology.Operations()[0].ID)
		}
	}
	look()
}

// abortOperation aborts the operation in progress, as an operator may at any time.
func (c *Cluster) abortOperation(*Stream) {
	if all := c.metadata(); all != nil && len(all.Topology.Operations()) > 0 {
		c.abort(all.Topology.Operations()[0].ID)
	}
}

func (c *Cluster) abort(operation uint64) {
	for _, n := range c.present() {
		if l := n.process; l.serves() {
			l.soon(func() {
				l.cluster.Operations().StartAbort(operation, func(err error) {
					c.kernel.Trace(fmt.Sprint("abort ", operation, err))
					if err == nil {
						c.count("operations aborted")
					}
				})
			})
			return
		}
	}
}

// left reports whether a refusal means that the node was a member and no longer is.
func (n *Node) left(err error) bool {
	var refused *metadata.Refused
	if !errors.As(err, &refused) || n.process == nil || refused.Busy {
		return false
	}
	if n.process.Self() == 0 { // removed before it learned of its admission
		return true
	}
	return n.cluster.metadata().Topology.Node(n.process.Self()) == nil
}

// retire ends a machine that has left. If it was to replace a dead node, and was stopped, it tries again with an empty
// disk, because the dead node must be replaced.
func (n *Node) retire() {
	if n.departed || n.retiring {
		return
	}
	n.retiring = true
	if !n.leaving && n.replace != "" && n.cluster.memberAt(n.replace) {
		n.cluster.kernel.After(time.Second, "retire", func() {
			n.retiring = false
			replace := n.replace
			n.crash(true)
			n.wipe()
			n.replace = replace
			n.start()
		})
		return
	}
	n.departed = true
	n.cluster.excused.left(n.process)
	n.cluster.count("nodes left")
	n.cluster.kernel.After(time.Second, "retire", func() { n.crash(true) })
}

// memberAt reports whether a member has the address.
func (c *Cluster) memberAt(addr string) bool {
	return slices.ContainsFunc(c.metadata().Topology.Nodes(),
		func(n *ring.Node) bool { return n.Internode.String() == addr })
}

// wipe gives the machine an empty disk and another address: it is now another node, which asks to replace the former
// one.
func (n *Node) wipe() {
	if n.cluster.options.BlankDisksServe {
		if err := n.disk.RemoveAll(dataDir); err != nil {
			n.cluster.fail("node %d cannot be wiped: %v", n.id, err)
		}
		return
	}
	n.disk, n.member, n.damaged = vfs.NewCrashableMem(), false, false
	n.replace = n.addr.String()
	a := n.addr.Addr().As4()
	a[2]++
	n.setAddr(netip.AddrPortFrom(netip.AddrFrom4(a), n.addr.Port()))
	n.cluster.count("nodes replaced")
}
