package sim

import (
	"time"

	"cqld/ring"
)

// torment schedules faults until the run is healed: one after the other, overlapping.
func (c *Cluster) torment() {
	r := NewStream(c.options.Seed, "nemesis")
	faults := []func(*Stream){c.crashOne, c.crashOne, c.powerCut, c.isolate, c.oneWay, c.halves, c.badLinks, c.slowLinks}
	var next func()
	next = func() {
		if c.healed {
			return
		}
		c.faults++
		faults[r.Intn(len(faults))](r)
		c.kernel.After(r.Between(50*time.Millisecond, 1200*time.Millisecond), "nemesis", next)
	}
	c.kernel.After(r.Between(100*time.Millisecond, 500*time.Millisecond), "nemesis", next)
}

// crashOne stops a process; it comes again.
func (c *Cluster) crashOne(r *Stream) {
	n := c.nodes[r.Intn(len(c.nodes))]
	n.crash()
	c.kernel.After(r.Between(20*time.Millisecond, 3*time.Second), "restart", n.start)
}

// powerCut stops all processes at once.
func (c *Cluster) powerCut(r *Stream) {
	for _, n := range c.nodes {
		n.crash()
		c.kernel.After(r.Between(20*time.Millisecond, time.Second), "restart", n.start)
	}
}

// cut separates the links for a while.
func (c *Cluster) cut(r *Stream, links []link) {
	for _, l := range links {
		c.net.cut[l] = true
	}
	c.kernel.After(r.Between(100*time.Millisecond, 2500*time.Millisecond), "mend", func() {
		for _, l := range links {
			delete(c.net.cut, l)
		}
	})
}

// isolate cuts one node off.
func (c *Cluster) isolate(r *Stream) {
	n := c.nodes[r.Intn(len(c.nodes))].id
	var links []link
	for _, o := range c.nodes {
		if o.id != n {
			links = append(links, link{n, o.id}, link{o.id, n})
		}
	}
	c.cut(r, links)
}

// oneWay cuts one direction between two nodes.
func (c *Cluster) oneWay(r *Stream) {
	from := c.nodes[r.Intn(len(c.nodes))].id
	to := c.nodes[r.Intn(len(c.nodes))].id
	if from != to {
		c.cut(r, []link{{from, to}})
	}
}

// halves cuts the cluster in two.
func (c *Cluster) halves(r *Stream) {
	side := map[ring.NodeID]bool{}
	for _, n := range c.nodes {
		side[n.id] = r.Chance(500)
	}
	var links []link
	for _, a := range c.nodes {
		for _, b := range c.nodes {
			if side[a.id] != side[b.id] {
				links = append(links, link{a.id, b.id})
			}
		}
	}
	c.cut(r, links)
}

// badLinks loses and duplicates messages for a while.
func (c *Cluster) badLinks(r *Stream) {
	c.net.Loss, c.net.Duplicates = r.Intn(200), r.Intn(200)
	c.kernel.After(r.Between(200*time.Millisecond, 2*time.Second), "good links", func() {
		c.net.Loss, c.net.Duplicates = 0, 0
	})
}

// slowLinks delays some messages for a while, past others.
func (c *Cluster) slowLinks(r *Stream) {
	c.net.Slow, c.net.SlowMax = r.Intn(200), r.Between(20*time.Millisecond, 1500*time.Millisecond)
	c.kernel.After(r.Between(200*time.Millisecond, 2*time.Second), "quick links", func() { c.net.Slow = 0 })
}
