package vector

import "slices"

// capacity returns the number of links of a node on a level.
func (x *Index) capacity(level int) int {
	if level == 0 {
		return 2 * x.o.Connections
	}
	return x.o.Connections
}

// link adds a node to the graph.
func (x *Index) link(n *node) {
	entry := x.entry.Load()
	if entry == nil {
		x.entry.Store(n)
		return
	}
	x.connect(n, entry)
	if len(n.links) > len(entry.links) {
		x.entry.Store(n)
	}
}

// connect links a node with its neighbours on all of its levels, which it searches from entry.
func (x *Index) connect(n, entry *node) {
	from := x.descend(&n.point, entry, len(n.links))
	seen := x.borrow()
	defer x.pool.Put(seen)
	for level := min(len(n.links), len(entry.links)) - 1; level >= 0; level-- {
		near := x.beam(n, from, level, seen)
		seen.reset()
		chosen := x.choose(near, x.o.Connections)
		n.links[level].Store(&chosen)
		for _, m := range chosen {
			x.backlink(m, n, level)
		}
		if len(near) > 0 {
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
	open, best := heap{}, heap{farthest: true}
	visit := func(c candidate) {
		if c.node == n || len(best.items) == x.o.Beam && c.distance >= best.items[0].distance {
			return
		}
		open.push(c)
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

// backlink adds a link from m to n, and selects the links of m again if they became too many.
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
