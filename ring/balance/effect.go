package balance

import (
	"slices"

	"cqld/ring"
)

// apply changes the ring of the planner.
func (p *planner) apply(t ring.Transfer, to int) {
	if t.From == 0 {
		p.w.insert(t.Token, to)
		return
	}
	p.w.owner[p.w.find(t.Token)] = to
}

// effect computes what a transfer changes. The ring is afterwards as before.
func (p *planner) effect(t ring.Transfer, to int) *candidate {
	c := &candidate{transfer: t, to: to, after: map[ring.Token]map[int]figures{}, delta: map[int]figures{}}
	w := p.w
	at := w.find(t.Token)
	var undo func()
	if t.From == 0 {
		// The new token has both halves of the range that it divides; they have the same replicas before.
		whole := w.tokens[at%len(w.tokens)]
		before, _ := w.union(at % len(w.tokens))
		c.ends = w.ends(w.reaching(at % len(w.tokens)))
		w.insert(t.Token, to)
		undo = func() { w.remove(t.Token) }
		half := map[int]figures{}
		for node, f := range p.at[whole] {
			half[node] = figures{f.charge / 2, f.bytes / 2, f.ranges}
			c.add(node, figures{ranges: f.ranges})
		}
		c.after[whole] = half
		c.change(t.Token, half, before, w)
	} else {
		from := w.owner[at]
		w.owner[at] = to
		// A walk reaches farther with one of the owners than with the other.
		c.ends = w.ends(w.reaching(at))
		w.owner[at] = from
		for _, end := range w.ends(w.reaching(at)) {
			if !slices.Contains(c.ends, end) {
				c.ends = append(c.ends, end)
			}
		}
		undo = func() { w.owner[w.find(t.Token)] = from }
	}
	before := make([][]int, len(c.ends))
	undo()
	for k, end := range c.ends {
		before[k], _ = w.union(w.find(end))
	}
	p.apply(t, to)
	for k, end := range c.ends {
		// The rest of a divided range is walked from its end, which the new token precedes.
		if _, divided := c.after[end]; !divided {
			c.change(end, p.at[end], before[k], w)
		}
	}
	undo()
	for node, d := range c.delta {
		after := p.sum[node]
		after.plus(d, 1)
		c.gain += p.unevenness(node, p.sum[node]) - p.unevenness(node, after)
	}
	return c
}

// ends returns the ends of the ranges with these indices.
func (w *walker) ends(indices []int) (out []ring.Token) {
	for _, i := range indices {
		out = append(out, w.tokens[i])
	}
	return out
}

// change moves the load of a range from the nodes that lose it to the nodes that gain it, in the order of the walk.
func (c *candidate) change(end ring.Token, has map[int]figures, before []int, w *walker) {
	after, _ := w.union(w.find(end))
	lost := without(before, after)
	moved := map[int]figures{}
	for node, f := range has {
		moved[node] = f
	}
	for k, node := range without(after, before) {
		var f figures
		if k < len(lost) {
			f = has[lost[k]]
		} else if len(before) > 0 {
			f = has[before[0]]
		}
		f.ranges = 1
		moved[node] = f
		c.add(node, f)
		c.bytes += f.bytes
	}
	for _, node := range lost {
		f := has[node]
		delete(moved, node)
		c.add(node, figures{-f.charge, -f.bytes, -f.ranges})
	}
	c.after[end] = moved
}

// add adds to what a node gains.
func (c *candidate) add(node int, f figures) {
	d := c.delta[node]
	d.plus(f, 1)
	c.delta[node] = d
}

// without returns the elements of a that b lacks.
func without(a, b []int) (out []int) {
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}
