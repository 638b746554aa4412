package simulation

import (
	"time"

	"cqld/simulation/kernel"
	"cqld/simulation/network"
)

// linkFaults cut, delay and confuse the links between nodes. A link is one direction. Machines that join later are not
// affected by faults that began before.
type linkFaults struct{ c *Cluster }

// strikes returns the faults by kind.
func (f linkFaults) strikes() map[faultKind]func(*kernel.Stream) {
	return map[faultKind]func(*kernel.Stream){
		"isolate":    f.isolate,
		"one-way":    f.oneWay,
		"halves":     f.halves,
		"bridge":     f.bridge,
		"ring":       f.ring,
		"bad-links":  f.badLinks,
		"slow-links": f.slowLinks,
		"reorder":    f.reorder,
		"dc-cut":     f.cutDatacenter,
		"dc-slow":    f.slowDatacenters,
	}
}

// cut separates the links for a while. Cuts may overlap: a link works when all have ended.
func (f linkFaults) cut(r *kernel.Stream, links []network.Link) {
	c := f.c
	c.net.Cut(links)
	// If the cluster is healed first, ClearFaults ends the cut, and this part is skipped.
	c.later(r.Between(100*time.Millisecond, 2500*time.Millisecond), "heal", func() { c.net.Restore(links) })
}

// cutBetween cuts all links between nodes for which apart returns true, given their indexes.
func (f linkFaults) cutBetween(r *kernel.Stream, apart func(a, b int) bool) {
	var links []network.Link
	for i, a := range f.c.nodes {
		for k, b := range f.c.nodes {
			if i != k && apart(i, k) {
				links = append(links, network.Link{From: a.id, To: b.id})
			}
		}
	}
	f.cut(r, links)
}

// isolate isolates one node. Clients of the isolated node still reach it, and must get timeouts or Unavailable.
func (f linkFaults) isolate(r *kernel.Stream) {
	n := r.Intn(len(f.c.nodes))
	f.cutBetween(r, func(a, b int) bool { return a == n || b == n })
}

// oneWay cuts one direction between two nodes, or all from one.
func (f linkFaults) oneWay(r *kernel.Stream) {
	// from and to may be equal: then nothing is cut, unless all are.
	from, to, all := r.Intn(len(f.c.nodes)), r.Intn(len(f.c.nodes)), r.Chance(300)
	f.cutBetween(r, func(a, b int) bool { return a == from && (all || b == to) })
}

// sides assigns every node to one of two sides.
func (f linkFaults) sides(r *kernel.Stream) []bool {
	side := make([]bool, len(f.c.nodes))
	for i := range side {
		side[i] = r.Chance(500)
	}
	return side
}

// halves divides the cluster into two sides.
func (f linkFaults) halves(r *kernel.Stream) {
	side := f.sides(r)
	f.cutBetween(r, func(a, b int) bool { return side[a] != side[b] })
}

// bridge divides the cluster into two sides, except for one node that is connected with both. Each side sees the bridge
// alive, so both may believe in a majority: Raft and quorums must not.
func (f linkFaults) bridge(r *kernel.Stream) {
	side, n := f.sides(r), r.Intn(len(f.c.nodes))
	f.cutBetween(r, func(a, b int) bool { return side[a] != side[b] && a != n && b != n })
}

// ring connects each node only with its two neighbours, in a random order.
func (f linkFaults) ring(r *kernel.Stream) {
	place := make([]int, len(f.c.nodes))
	// A random permutation (Fisher-Yates, inside out).
	for i := range place {
		k := r.Intn(i + 1)
		place[i], place[k] = place[k], i
	}
	f.cutBetween(r, func(a, b int) bool {
		d := (place[a] - place[b] + len(place)) % len(place)
		return d != 1 && d != len(place)-1
	})
}

// badLinks loses and duplicates messages for a while. Both are per thousand messages, and independent of the link.
func (f linkFaults) badLinks(r *kernel.Stream) {
	c := f.c
	// Up to a fifth of all messages each. A later fault of the network replaces these values, and its end resets them.
	c.net.Loss, c.net.Duplicates = r.Intn(200), r.Intn(200)
	c.later(r.Between(200*time.Millisecond, 2*time.Second), "good links", func() {
		c.net.Loss, c.net.Duplicates = 0, 0
	})
}

// slowLinks delays some messages for a while, past others.
func (f linkFaults) slowLinks(r *kernel.Stream) {
	c := f.c
	c.net.Slow, c.net.SlowMax = r.Intn(200), r.Between(20*time.Millisecond, 1500*time.Millisecond)
	c.later(r.Between(200*time.Millisecond, 2*time.Second), "quick links", func() { c.net.Slow = 0 })
}

// reorder duplicates half of the messages, and delivers all in random order. Protocols must be idempotent: a request
// may be handled twice, and after its sender has given up.
func (f linkFaults) reorder(r *kernel.Stream) {
	c := f.c
	c.net.Duplicates, c.net.DelayMax = 500, r.Between(20*time.Millisecond, 200*time.Millisecond)
	c.later(r.Between(200*time.Millisecond, 2*time.Second), "order", func() {
		c.net.Duplicates, c.net.DelayMax = 0, network.DelayMax
	})
}

// cutDatacenter separates one data center from the others. LOCAL_QUORUM must continue to work on both sides.
func (f linkFaults) cutDatacenter(r *kernel.Stream) {
	c := f.c
	dc := datacenterName(1 + r.Intn(max(1, len(c.options.Datacenters))))
	f.cutBetween(r, func(a, b int) bool { return (c.nodes[a].dc == dc) != (c.nodes[b].dc == dc) })
}

// slowDatacenters delays messages between data centers by up to about the timeout of a request.
func (f linkFaults) slowDatacenters(r *kernel.Stream) {
	c := f.c
	c.net.Far = c.options.Far + r.Between(50*time.Millisecond, 900*time.Millisecond)
	c.later(r.Between(200*time.Millisecond, 2*time.Second), "near", func() { c.net.Far = c.options.Far })
}
