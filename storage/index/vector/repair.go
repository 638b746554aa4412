package vector

import "slices"

// repair is the state of unlinking deleted nodes. Deleted nodes (ghosts) stay linked, so that searches still reach
// their neighbors. When they are many, each write visits a few nodes and replaces their links to ghosts by links to
// the neighbours of those; after a pass over all nodes no link leads to a ghost that was there when it began. The
// states of a node: alive ─ bury ─▶ ghost ─ release ─▶ released.
type repair struct {
	waiting  []*node // ghosts that the next pass unlinks
	draining []*node // ghosts that the running pass unlinks
	at       uint32  // the slot at which the running pass continues
	step     uint32  // slots that each write visits
}

// bury deletes a node.
func (x *Index) bury(n *node) {
	n.state.Store(ghost)
	x.live.Add(-1)
	x.repair.waiting = append(x.repair.waiting, n)
}

// unlink continues the pass, or begins one if many ghosts wait. mu is held.
func (x *Index) unlink() {
	r := &x.repair
	if len(r.draining) == 0 {
		// A pass visits all nodes, so it begins only when enough ghosts can be unlinked at once.
		bound := max(minGhosts, x.Len()/ghostDivisor)
		if len(r.waiting) < bound {
			return
		}
		// The pass is over before as many ghosts wait again.
		r.draining, r.waiting, r.at = r.waiting, nil, 0
		r.step = x.slots/uint32(bound) + 1
	}
	// x.slots may have grown since the pass began. Nodes that were added since have no links to draining ghosts: beam
	// returns none.
	end := min(r.at+r.step, x.slots)
	for ; r.at < end; r.at++ {
		if n := x.slot(r.at).Load(); n != nil && !n.dead() {
			x.unlinkGhosts(n)
		}
	}
	if r.at == x.slots {
		x.release()
	}
}

// unlinkGhosts replaces the links of a node to ghosts.
func (x *Index) unlinkGhosts(n *node) {
	for level := range n.links {
		links := n.at(level)
		if !slices.ContainsFunc(links, func(m *node) bool { return m.dead() }) {
			continue
		}
		var among []*node
		for _, m := range links {
			if !m.dead() {
				among = append(among, m)
				continue
			}
			// The ghost's own neighbours keep the regions connected that only the ghost joined.
			for _, behind := range m.at(level) {
				if !behind.dead() && !slices.Contains(among, behind) {
					among = append(among, behind)
				}
			}
		}
		if level == 0 && len(among) < x.o.Connections/2 && x.Len() > len(among)+1 {
			x.connect(n, x.entry.Load()) // too little is left: search neighbours again
			return
		}
		// choose selects among them, and relink drops n itself.
		x.relink(n, among, level)
	}
}

// release ends a pass: nothing leads to the ghosts that it unlinked, except other ghosts and searches that run.
func (x *Index) release() {
	entry := x.entry.Load()
	for _, n := range x.repair.draining {
		// Searches that still find the node in a list skip it, because another node may have its slot by then.
		n.state.Store(released)
		x.slot(n.slot).Store(nil)
		x.free = append(x.free, n.slot)
		x.bytes.Add(-x.size(n))
	}
	// Searches need an entry. Until here the ghost served as one, because ghosts keep their links.
	if entry.state.Load() == released {
		x.entry.Store(x.highest())
	}
	for _, n := range x.repair.draining {
		// Ghosts refer to each other. Without this, a search that holds one would keep all of them in memory.
		for level := range n.links {
			n.links[level].Store(nil)
		}
	}
	x.repair.draining = nil
}

// highest returns the node with the most levels, or nil. It looks at every slot, which happens once per released entry.
func (x *Index) highest() (best *node) {
	for i := range x.slots {
		if n := x.slot(i).Load(); n != nil && (best == nil || len(n.links) > len(best.links)) {
			best = n
		}
	}
	return best
}
