package balance

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"cqld/ring"
)

// The bounds of a search. A plan takes about 0.5 s for 100 nodes with 16 tokens, and 1.5 s for 1,000.
const (
	giversMax    = 4  // nodes above their share that are examined for a step
	receiversMax = 8  // nodes below their share to which each candidate is examined
	dividedMax   = 12 // ranges of a giver that are examined for a division
	rejectedMax  = 32
)

// costOfBytes is the gain that a step must have for each mean of the bytes of the nodes that it moves.
const costOfBytes = 0.02

// figures are the load of a range or a node.
type figures struct {
	charge, bytes float64
	ranges        int
}

// plus adds o times sign.
func (f *figures) plus(o figures, sign float64) {
	f.charge += sign * o.charge
	f.bytes += sign * o.bytes
	f.ranges += int(sign) * o.ranges
}

// planner is the state of one plan.
type planner struct {
	in      *Input
	opts    Options
	w       *walker
	at      map[ring.Token]map[int]figures // by the end of the range and the node
	sum     []figures                      // by node
	mean    []figures                      // by group, for a weight of 1
	group   []int                          // by node: nodes between which load can move
	weight  []float64
	tokens  []int // by node
	frozen  map[ring.Token]bool
	moved   float64
	refused map[ring.Transfer]bool

	steps      []Step
	rejections []Rejection
}

// candidate is a possible step and its effect.
type candidate struct {
	transfer ring.Transfer
	giver    int
	to       int
	ends     []ring.Token // of the ranges that change
	after    map[ring.Token]map[int]figures
	delta    map[int]figures
	gain     float64
	bytes    float64
}

// Plan returns the steps that make the nodes more even, the best first, and what it rejected.
func Plan(in *Input, opts Options) ([]Step, []Rejection, []Share) {
	p := newPlanner(in, opts)
	shares := p.shares()
	if len(in.Topology.Operations()) > 0 {
		p.reject(ring.Transfer{}, "an operation on the ring is in progress")
		return nil, p.rejections, shares
	}
	if p.worst() <= opts.Threshold {
		p.reject(ring.Transfer{},
			fmt.Sprintf("no node deviates from its share by more than %.0f %%", opts.Threshold*100))
		return nil, p.rejections, shares
	}
	for len(p.steps) < opts.StepsMax {
		best := p.best()
		if best == nil {
			break
		}
		p.take(best)
	}
	return p.steps, p.rejections, shares
}

// newPlanner returns a planner that has taken no step.
func newPlanner(in *Input, opts Options) *planner {
	p := &planner{in: in, opts: opts, w: newWalker(in.Topology, in.Replications),
		at: map[ring.Token]map[int]figures{}, frozen: map[ring.Token]bool{}, refused: map[ring.Transfer]bool{}}
	n := len(p.w.nodes)
	p.sum, p.weight = make([]figures, n), make([]float64, n)
	p.tokens, p.group = make([]int, n), make([]int, n)
	index := map[ring.NodeID]int{}
	for i, x := range p.w.nodes {
		index[x.ID] = i
		p.weight[i] = 1
		if w, ok := in.Weights[x.ID]; ok {
			p.weight[i] = w
		}
	}
	for _, o := range p.w.owner {
		p.tokens[o]++
	}
	for i := range in.Load.Nodes {
		node, ok := index[in.Load.Nodes[i].Node]
		if !ok {
			continue
		}
		for _, r := range in.Load.Nodes[i].Ranges {
			if p.at[r.Tokens.End] == nil {
				p.at[r.Tokens.End] = map[int]figures{}
			}
			f := figures{r.SlowCharge, float64(r.Bytes), 1}
			p.at[r.Tokens.End][node] = f
			p.sum[node].plus(f, 1)
		}
	}
	p.divide()
	return p
}

// divide puts the nodes into groups, and computes what each group has for a weight of 1.
func (p *planner) divide() {
	groups := map[[2]int]int{}
	var weights []float64
	for i := range p.w.nodes {
		key := [2]int{p.w.dc[i], -1}
		if p.w.byRack(p.w.dc[i]) {
			key[1] = p.w.rack[i]
		}
		if _, ok := groups[key]; !ok {
			groups[key] = len(groups)
			p.mean, weights = append(p.mean, figures{}), append(weights, 0)
		}
		g := groups[key]
		p.group[i] = g
		// A node without tokens joins by an operation of its own.
		if p.tokens[i] > 0 {
			p.mean[g].plus(p.sum[i], 1)
			weights[g] += p.weight[i]
		}
	}
	for g := range p.mean {
		if weights[g] > 0 {
			p.mean[g].charge /= weights[g]
			p.mean[g].bytes /= weights[g]
		}
	}
}

// deviations returns how far a node with these figures is from its share, in means of its group.
func (p *planner) deviations(node int, f figures) (charge, bytes float64) {
	m := p.mean[p.group[node]]
	if m.charge > 0 {
		charge = f.charge/m.charge - p.weight[node]
	}
	if m.bytes > 0 {
		bytes = f.bytes/m.bytes - p.weight[node]
	}
	return charge, bytes
}

// unevenness is the part of a node in the sum that steps reduce.
func (p *planner) unevenness(node int, f figures) float64 {
	c, b := p.deviations(node, f)
	return c*c + b*b
}

// excess returns how far a node is above its share by charge or bytes, relative to the share. It is negative if the
// node is below both.
func (p *planner) excess(node int) float64 {
	c, b := p.deviations(node, p.sum[node])
	return max(c, b) / max(p.weight[node], 0.01)
}

// worst returns the greatest excess of a node with tokens.
func (p *planner) worst() (x float64) {
	for i := range p.w.nodes {
		if p.tokens[i] > 0 {
			x = max(x, p.excess(i))
		}
	}
	return x
}

// shares returns the load of all nodes with tokens.
func (p *planner) shares() (out []Share) {
	for i, n := range p.w.nodes {
		if p.tokens[i] == 0 {
			continue
		}
		m := p.mean[p.group[i]]
		out = append(out, Share{Node: n.ID, Charge: p.sum[i].charge, Want: m.charge * p.weight[i],
			Bytes: int64(p.sum[i].bytes), WantBytes: int64(m.bytes * p.weight[i]), Tokens: p.tokens[i],
			Weight: p.weight[i], Deviation: p.excess(i)})
	}
	return out
}

// best returns the candidate with the most gain for its bytes, or nil.
func (p *planner) best() (best *candidate) {
	var order []int
	for i := range p.w.nodes {
		if p.tokens[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.excess(b), p.excess(a)) })
	for _, giver := range order[:min(giversMax, len(order))] {
		if p.excess(giver) <= p.opts.Threshold/2 {
			break
		}
		for _, c := range p.candidates(giver, p.receivers(giver, order)) {
			if best == nil || p.score(c) > p.score(best) {
				best = c
			}
		}
	}
	return best
}

// score is the gain less the cost of the bytes that move.
func (p *planner) score(c *candidate) float64 {
	m := p.mean[p.group[c.to]].bytes
	if m == 0 {
		return c.gain
	}
	return c.gain - costOfBytes*c.bytes/m
}

// receivers returns the nodes of the giver's group that are farthest below their shares.
func (p *planner) receivers(giver int, order []int) (out []int) {
	for _, to := range slices.Backward(order) {
		if p.group[to] == p.group[giver] && to != giver && p.weight[to] > 0 && p.in.Alive[p.w.nodes[to].ID] &&
			p.excess(to) < p.excess(giver) && len(out) < receiversMax {
			out = append(out, to)
		}
	}
	return out
}

// candidates returns the possible steps that take load from a node.
func (p *planner) candidates(giver int, receivers []int) (out []*candidate) {
	type division struct {
		tok    ring.Token
		charge float64
	}
	var owned []ring.Token
	var divided []division
	for i, tok := range p.w.tokens {
		if p.w.owner[i] == giver {
			owned = append(owned, tok)
		}
		// A range that holds no load of the giver relieves it of nothing.
		if f, ok := p.at[tok][giver]; ok && !p.frozen[tok] {
			if mid, ok := p.w.middle(i); ok {
				m := p.mean[p.group[giver]]
				divided = append(divided, division{mid, ratio(f.charge, m.charge) + ratio(f.bytes, m.bytes)})
			}
		}
	}
	slices.SortStableFunc(divided, func(a, b division) int { return cmp.Compare(b.charge, a.charge) })
	id := p.w.nodes[giver].ID
	for _, to := range receivers {
		for _, tok := range owned {
			out = p.consider(out, ring.Transfer{Token: tok, From: id, To: p.w.nodes[to].ID}, giver, to)
		}
		for _, d := range divided[:min(dividedMax, len(divided))] {
			out = p.consider(out, ring.Transfer{Token: d.tok, To: p.w.nodes[to].ID}, giver, to)
		}
	}
	return out
}

// ratio returns x/y; 0 if y is 0.
func ratio(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return x / y
}

// consider appends a step to out, or rejects it.
func (p *planner) consider(out []*candidate, t ring.Transfer, giver, to int) []*candidate {
	at, moved := p.in.Recent[t.Token]
	var reason string
	switch {
	case moved && p.in.Now-at < p.opts.Rest:
		reason = fmt.Sprintf("the token moved %s ago", p.in.Now-at)
	case t.From != 0 && p.tokens[giver] <= p.opts.TokensMin:
		reason = "the owner has the fewest tokens that a node may have"
	case p.tokens[to] >= p.opts.TokensMax:
		reason = "the receiver has the most tokens that a node may have"
	}
	if reason != "" {
		p.reject(t, reason)
		return out
	}
	c := p.effect(t, to)
	c.giver = giver
	switch {
	case slices.ContainsFunc(c.ends, func(e ring.Token) bool { return p.frozen[e] }):
		reason = "its ranges change by an earlier step of this plan"
	case p.losesDead(c):
		reason = "a dead node has a replica of its ranges"
	case c.gain < p.opts.GainMin || p.score(c) <= 0:
		reason = "it does not make the nodes more even by enough for the bytes that it moves"
	case p.moved+c.bytes > float64(p.opts.BytesMax):
		reason = "the plan would move more bytes than allowed"
	case p.full(c):
		reason = "the disk of a receiver has too little space"
	default:
		return append(out, c)
	}
	p.reject(t, reason)
	return out
}

// losesDead reports whether a dead node gains or loses a range.
func (p *planner) losesDead(c *candidate) bool {
	for node := range c.delta {
		if !p.in.Alive[p.w.nodes[node].ID] {
			return true
		}
	}
	return false
}

// full reports whether a node would have less than a tenth of its disk free.
func (p *planner) full(c *candidate) bool {
	for i := range p.in.Load.Nodes {
		n := &p.in.Load.Nodes[i]
		for node, d := range c.delta {
			if p.w.nodes[node].ID == n.Node && d.bytes > 0 && n.Host.DiskTotal > 0 &&
				float64(n.Host.DiskFree)-d.bytes < float64(n.Host.DiskTotal)/10 {
				return true
			}
		}
	}
	return false
}

// reject records a candidate that is not planned, once.
func (p *planner) reject(t ring.Transfer, reason string) {
	if len(p.rejections) < rejectedMax && !p.refused[t] {
		p.refused[t] = true
		p.rejections = append(p.rejections, Rejection{t, reason})
	}
}

// take adds a step to the plan, and changes the ring of the planner as the step does.
func (p *planner) take(c *candidate) {
	t := c.transfer
	p.apply(t, c.to)
	p.tokens[c.to]++
	s := Step{Transfer: t, Bytes: int64(c.bytes),
		Reason: fmt.Sprintf("the owner is %.0f %% above its share", p.excess(c.giver)*100)}
	if t.From != 0 {
		p.tokens[c.giver]--
	} else {
		s.Reason = fmt.Sprintf("a replica of the range is %.0f %% above its share", p.excess(c.giver)*100)
	}
	for _, end := range c.ends {
		p.frozen[end] = true
	}
	for end, byNode := range c.after {
		p.at[end], p.frozen[end] = byNode, true
	}
	for node, d := range c.delta {
		p.sum[node].plus(d, 1)
		s.Changes = append(s.Changes, Change{p.w.nodes[node].ID, d.charge, int64(math.Round(d.bytes)), d.ranges})
	}
	slices.SortFunc(s.Changes, func(a, b Change) int { return cmp.Compare(a.Node, b.Node) })
	p.moved += c.bytes
	p.steps = append(p.steps, s)
}
