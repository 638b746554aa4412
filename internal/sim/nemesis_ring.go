package sim

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/cluster"
	"cqld/ring"
)

// nodesMost is how many members a simulated ring has at most.
const nodesMost = 6

// joinNode adds a machine to the ring.
func (c *Cluster) joinNode(*Stream) {
	if len(c.present()) >= nodesMost {
		return
	}
	n := newNode(c, ring.NodeID(len(c.nodes)+1))
	c.nodes = append(c.nodes, n)
	n.start()
}

// leaveNode asks a node to hand over what it has, when enough stay.
func (c *Cluster) leaveNode(r *Stream) {
	n := c.any(r)
	staying := 0
	for _, o := range c.present() {
		if o.member && !o.leaving {
			staying++
		}
	}
	if !n.life.serves() || n.damaged || n.leaving || staying <= c.options.Factor {
		return
	}
	n.leaving = true
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

// left says whether a refusal means that the node was a member and is none any more.
func (n *Node) left(err error) bool {
	var refused *cluster.Refused
	if !errors.As(err, &refused) || n.life == nil {
		return false
	}
	m := n.cluster.metadata().Topology
	return n.leaving && m.Node(n.life.Self()) == nil
}

// retire ends a machine that has left.
func (n *Node) retire() {
	if n.gone {
		return
	}
	n.gone = true
	n.cluster.count("nodes left")
	n.cluster.kernel.After(time.Second, "retire", func() { n.crash(true) })
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
