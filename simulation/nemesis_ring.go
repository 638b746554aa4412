package simulation

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/cluster"
	"cqld/ring"
)

// nodesMost is how many members a simulated ring has at most.
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

// leaveNode asks a node to hand over what it has, when enough stay.
func (c *Cluster) leaveNode(r *Stream) {
	n := c.any(r)
	staying := 0
	for _, o := range c.present() {
		if o.member && !o.leaving && n.neighbours(o) {
			staying++
		}
	}
	if !n.life.serves() || n.damaged || n.leaving || staying <= n.replicasNearby() {
		return
	}
	n.leaving = true
	c.decommission(n)
}

// decommission has a node hand over what it has and leave.
func (c *Cluster) decommission(n *Node) {
	l := n.life
	l.soon(func() {
		l.cluster.StartDecommission(false, func(err error) {
			if err != nil {
				n.leaving = n.left(err)
				c.kernel.Trace(fmt.Sprint("leave ", n.id, err))
			}
		})
	})
}

// moveNode gives a node other tokens.
func (c *Cluster) moveNode(r *Stream) {
	n := c.any(r)
	if !n.life.serves() || n.damaged || n.leaving {
		return
	}
	l := n.life
	tokens := make([]ring.Token, c.options.Tokens)
	for i := range tokens {
		tokens[i] = ring.Token(r.Uint64())
	}
	l.soon(func() {
		l.cluster.StartMove(tokens, func(err error) {
			if err != nil {
				c.kernel.Trace(fmt.Sprint("no move ", n.id, err))
				return
			}
			c.count("nodes moved")
		})
	})
}

// removeNode kills a node for good, and has the operator remove it from the ring.
func (c *Cluster) removeNode(r *Stream) {
	n := c.any(r)
	staying := 0
	for _, o := range c.present() {
		if o.life.serves() && !o.leaving { // one that joins may yet be stopped
			staying++
		}
	}
	if !c.mayLose(n) || !n.life.serves() || staying <= c.options.Factor {
		return
	}
	c.losing = true
	id := n.life.Self()
	n.crash(true)
	n.dead = true
	c.count("nodes removed")
	c.kernel.After(c.paced(removeAfter), "operator", func() { c.remove(id) })
}

// How long the operator waits before a dead node is removed, between two attempts, and before an operation that
// makes no progress is aborted.
const (
	removeAfter  = 2 * time.Second
	operateEvery = time.Second
	stuckAfter   = 20 * time.Second
)

// remove asks any node that serves to remove a dead one, until it is no member any more.
func (c *Cluster) remove(id ring.NodeID) {
	if m := c.metadata(); m != nil && m.Topology.Node(id) == nil { // nil: all are down
		return
	}
	c.kernel.After(c.paced(operateEvery), "operator", func() { c.remove(id) })
	for _, n := range c.present() {
		if l := n.life; l.serves() {
			l.soon(func() {
				l.cluster.StartRemoveNode(id, false, func(err error) {
					if err != nil {
						c.kernel.Trace(fmt.Sprint("not removed ", id, err))
					}
				})
			})
			return
		}
	}
}

// members are the ids that machines have in the ring, dead ones not.
func (c *Cluster) members() (ids []ring.NodeID) {
	for _, n := range c.present() {
		if n.life != nil {
			ids = append(ids, n.life.Self())
		}
	}
	return ids
}

// removed says whether no node is a member that will never come back.
func (c *Cluster) removed() bool {
	ids := c.members()
	return !slices.ContainsFunc(c.metadata().Topology.Nodes(), func(n *ring.Node) bool { return !slices.Contains(ids, n.ID) })
}

// operate is the operator of a healed cluster, who aborts what cannot end because a node is dead for good: such
// an operation makes no progress.
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

// abortOperation takes back what is under way, as an operator may at any time.
func (c *Cluster) abortOperation(*Stream) {
	if all := c.metadata(); all != nil && len(all.Topology.Operations()) > 0 {
		c.abort(all.Topology.Operations()[0].ID)
	}
}

func (c *Cluster) abort(operation uint64) {
	for _, n := range c.present() {
		if l := n.life; l.serves() {
			l.soon(func() {
				l.cluster.StartAbort(operation, func(err error) {
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

// left says whether a refusal means that the node was a member and is none any more.
func (n *Node) left(err error) bool {
	var refused *cluster.Refused
	if !errors.As(err, &refused) || n.life == nil || refused.Busy {
		return false
	}
	if n.life.Self() == 0 { // taken back before it heard that it was let in
		return true
	}
	return n.cluster.metadata().Topology.Node(n.life.Self()) == nil
}

// retire ends a machine that has left. One that was to take a dead node's place, and was stopped, tries again
// with an empty disk: somebody has to.
func (n *Node) retire() {
	if n.gone || n.retiring {
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
	n.gone = true
	n.cluster.excused.left(n.life)
	n.cluster.count("nodes left")
	n.cluster.kernel.After(time.Second, "retire", func() { n.crash(true) })
}

// memberAt says whether a member has the address.
func (c *Cluster) memberAt(addr string) bool {
	return slices.ContainsFunc(c.metadata().Topology.Nodes(), func(n *ring.Node) bool { return n.Internode.String() == addr })
}

// wipe gives the machine an empty disk, and another address: it is another node, that asks to take the
// place of the one it was.
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
