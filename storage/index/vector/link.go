package vector

import "slices"

// capacity returns the number of links of a node on a level. The lowest level has twice as many, as the paper
// recommends.
func (x *Index) capacity(level int) int {
	if level == 0 {
		return 2 * x.o.Connections
	}
	return x.o.Connections
}

// link adds a node to the graph. n.links has a list for each level that was drawn for it. mu is held.
func (x *Index) link(n *node) {
	entry := x.entry.Load()
	if entry == nil {
		// The first node has no neighbours.
		x.entry.Store(n)
		return
	}
	x.connect(n, entry)
	// n becomes the entry after connect, so that a search that begins at n finds its links.
	if len(n.links) > len(entry.links) {
		x.entry.Store(n)
	}
}

// connect links a node with its neighbours on all of its levels, which it searches from entry.
func (x *Index) connect(n, entry *node) {
	from := x.descend(&n.point, entry, len(n.links))
	// The set is emptied after each level, so it can be returned to the pool as it is.
	seen := x.borrow()
	defer x.pool.Put(seen)
	for level := min(len(n.links), len(entry.links)) - 1; level >= 0; level-- {
		near := x.beam(n, from, level, seen)
		seen.reset()
		// On level 0, n selects fewer links than capacity allows, so that links from later nodes fit.
		chosen := x.choose(near, x.o.Connections)
		n.links[level].Store(&chosen)
		for _, m := range chosen {
			// n can be reached from here on; its own links on this level are stored already.
			x.backlink(m, n, level)
		}
		if len(near) > 0 {
			// The nearest node of a level is on the level below too.
			from = near[0]
		}
	}
}

// descend walks greedily from entry down to the lowest level above those below, and returns the nearest node there.
func (x *Index) descend(v *point, entry *node, below int) candidate {
	best := candidate{x.distance(v, &entry.point), entry}
	for level := len(entry.links) - 1; level >= max(below, 1); level-- {
		for improved := true; improved; {
			improved = false
			for _, m := range best.node.at(level) {
				if d := x.distance(v, &m.point); d < best.distance {
					best, improved = candidate{d, m}, true
				}
			}
		}
	}
	return best
}

// beam returns up to Beam of the nodes nearest to n on a level that are not deleted, by ascending distance.
func (x *Index) beam(n *node, from candidate, level int, seen *visited) []candidate {
	// open has the nodes whose links are to be followed, the nearest first. best has the result, the farthest first, so
	// that a nearer node replaces it.
	open, best := heap{}, heap{farthest: true}
	visit := func(c candidate) {
		if c.node == n || len(best.items) == x.o.Beam && c.distance >= best.items[0].distance {
			return
		}
		open.push(c)
		// A ghost is walked through but is no neighbour of a new node.
		if c.node.dead() {
			return
		}
		if best.push(c); len(best.items) > x.o.Beam {
			best.pop()
		}
	}
	seen.add(from.node.slot)
	visit(from)
	if from.node == n { // n is linked again, and is the entry
		open.push(from)
	}
	for len(open.items) > 0 {
		c := open.pop()
		// Nodes that are farther than all of a full result are not expected to lead to nearer ones.
		if len(best.items) == x.o.Beam && c.distance > best.items[0].distance {
			break
		}
		for _, m := range c.node.at(level) {
			if m.state.Load() != released && seen.add(m.slot) {
				visit(candidate{x.distance(&n.point, &m.point), m})
			}
		}
	}
	slices.SortFunc(best.items, compare)
	return best.items
}

// compare orders candidates by ascending distance, for slices.SortFunc.
func compare(a, b candidate) int {
	switch {
	case a.distance < b.distance:
		return -1
	case a.distance > b.distance:
		return 1
	}
	return 0
}

// choose selects up to n links among candidates, which are sorted by distance: those that are nearer to the node than
// to each link selected before, so that links lead in different directions (algorithm 4 of the paper). It selects all
// of them if they are not more.
func (x *Index) choose(candidates []candidate, n int) []*node {
	chosen := make([]*node, 0, min(n, len(candidates)))
	for _, c := range candidates {
		if len(chosen) == n {
			break
		}
		shadowed := len(candidates) > n && slices.ContainsFunc(chosen, func(m *node) bool {
			return x.distance(&c.node.point, &m.point) < c.distance
		})
		if !shadowed {
			chosen = append(chosen, c.node)
		}
	}
	return chosen
}

// backlink adds a link from m to n, and selects the links of m again if they became too many. The list grows by a copy,
// because readers may be in the old one.
func (x *Index) backlink(m, n *node, level int) {
	links := m.at(level)
	if slices.Contains(links, n) {
		return
	}
	capacity := x.capacity(level)
	if len(links) < capacity+capacity/slackDivisor {
		grown := append(make([]*node, 0, len(links)+1), links...)
		grown = append(grown, n)
		m.links[level].Store(&grown)
		return
	}
	x.relink(m, append(slices.Clone(links), n), level)
}

// relink selects the links of a node among others that are not deleted.
func (x *Index) relink(m *node, among []*node, level int) {
	candidates := make([]candidate, 0, len(among))
	for _, n := range among {
		if n != m && !n.dead() {
			candidates = append(candidates, candidate{x.distance(&m.point, &n.point), n})
		}
	}
	slices.SortFunc(candidates, compare)
	chosen := x.choose(candidates, x.capacity(level))
	m.links[level].Store(&chosen)
}
