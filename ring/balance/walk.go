package balance

import (
	"slices"
	"sort"

	"cqld/ring"
)

// rule is a replication as the walk applies it: how many replicas a group of nodes has, and how many of them may be in
// racks that already have one.
type rule struct {
	simple          bool
	wanted, repeats []int // by data center; by 0 for SimpleStrategy
	total           int
}

// walker is a ring as plain numbers, whose tokens a plan changes. Nodes, data centers and racks are indices.
type walker struct {
	tokens     []ring.Token // ascending
	owner      []int
	nodes      []*ring.Node
	dc, rack   []int // by node; two data centers share no rack
	racksOf    []int // by data center: its racks with tokens
	rules      []rule
	walk       int
	node, seen []int // the last walks that selected the node, or visited the rack
	need, more []int // by data center, of the current walk
}

// newWalker returns the ring of a topology. Replications without a choice of nodes have no rule.
func newWalker(t *ring.Topology, replications []ring.Replication) *walker {
	w := &walker{tokens: slices.Clone(t.Tokens()), nodes: t.Nodes()}
	index := map[ring.NodeID]int{}
	dcs, racks := map[string]int{}, map[[2]string]int{}
	var members []int // by data center
	for i, n := range w.nodes {
		index[n.ID] = i
		if _, ok := dcs[n.Datacenter]; !ok {
			dcs[n.Datacenter] = len(dcs)
			members, w.racksOf = append(members, 0), append(w.racksOf, 0)
		}
		w.dc = append(w.dc, dcs[n.Datacenter])
	}
	owns := make([]bool, len(w.nodes))
	for i := range w.tokens {
		o := index[t.Owner(i).ID]
		w.owner, owns[o] = append(w.owner, o), true
	}
	counted := map[int]bool{}
	for i, n := range w.nodes {
		of := [2]string{n.Datacenter, n.Rack}
		if _, ok := racks[of]; !ok {
			racks[of] = len(racks)
		}
		w.rack = append(w.rack, racks[of])
		if !owns[i] {
			continue
		}
		members[w.dc[i]]++
		if !counted[racks[of]] {
			counted[racks[of]] = true
			w.racksOf[w.dc[i]]++
		}
	}
	for _, r := range replications {
		w.addRule(r, dcs, members)
	}
	w.node, w.seen = make([]int, len(w.nodes)), make([]int, len(racks))
	w.need, w.more = make([]int, len(dcs)), make([]int, len(dcs))
	return w
}

// addRule adds the rule of a replication.
func (w *walker) addRule(r ring.Replication, dcs map[string]int, members []int) {
	all := 0
	for _, n := range members {
		all += n
	}
	switch r.Class {
	case ring.Simple:
		w.rules = append(w.rules, rule{simple: true, total: min(r.Factor, all)})
	case ring.NetworkTopology:
		x := rule{wanted: make([]int, len(dcs)), repeats: make([]int, len(dcs))}
		for _, f := range r.Datacenters {
			if dc, ok := dcs[f.Datacenter]; ok {
				x.wanted[dc] = max(0, min(f.Factor, members[dc]))
				x.repeats[dc] = f.Factor - w.racksOf[dc]
				x.total += x.wanted[dc]
			}
		}
		w.rules = append(w.rules, x)
	}
}

// byRack reports whether each rack of a data center has exactly one replica of each range, so that load cannot move
// from one rack to another.
func (w *walker) byRack(dc int) bool {
	for i := range w.rules {
		x := &w.rules[i]
		if x.simple || x.wanted[dc] != 0 && x.wanted[dc] != w.racksOf[dc] {
			return false
		}
	}
	return true
}

// replicas appends the replicas of the range that ends at tokens[i] under a rule, and returns how many tokens it
// walked.
func (w *walker) replicas(x *rule, i int, out []int) (set []int, steps int) {
	w.walk++
	copy(w.need, x.wanted)
	copy(w.more, x.repeats)
	left := x.total
	for left > 0 && steps < len(w.tokens) {
		o := w.owner[(i+steps)%len(w.tokens)]
		steps++
		if w.node[o] == w.walk {
			continue
		}
		if !x.simple {
			dc, rack := w.dc[o], w.rack[o]
			switch {
			case w.need[dc] == 0:
				continue
			case w.seen[rack] != w.walk:
				w.seen[rack] = w.walk
			case w.more[dc] > 0:
				w.more[dc]--
			default:
				continue
			}
			w.need[dc]--
		}
		w.node[o] = w.walk
		left--
		out = append(out, o)
	}
	return out, steps
}

// union returns the nodes that have the range that ends at tokens[i] under any rule, and the tokens of the longest
// walk.
func (w *walker) union(i int) (set []int, steps int) {
	for k := range w.rules {
		from := len(set)
		var n int
		set, n = w.replicas(&w.rules[k], i, set)
		steps = max(steps, n)
		for j := from; j < len(set); j++ {
			if slices.Contains(set[:from], set[j]) {
				set = slices.Delete(set, j, j+1)
				j--
			}
		}
	}
	return set, steps
}

// reaching returns the indices of the ranges whose walks reach tokens[p]: p, and the ones before it. A walk of an
// earlier range never ends later.
func (w *walker) reaching(p int) []int {
	n := len(w.tokens)
	out := []int{p}
	for back := 1; back < n; back++ {
		i := (p - back + n) % n
		if _, steps := w.union(i); steps <= back {
			break
		}
		out = append(out, i)
	}
	return out
}

// find returns the index of the first token that is not smaller than tok.
func (w *walker) find(tok ring.Token) int {
	return sort.Search(len(w.tokens), func(i int) bool { return w.tokens[i] >= tok })
}

// insert adds a token, which no node has.
func (w *walker) insert(tok ring.Token, owner int) {
	p := w.find(tok)
	w.tokens, w.owner = slices.Insert(w.tokens, p, tok), slices.Insert(w.owner, p, owner)
}

// remove removes a token.
func (w *walker) remove(tok ring.Token) {
	p := w.find(tok)
	w.tokens, w.owner = slices.Delete(w.tokens, p, p+1), slices.Delete(w.owner, p, p+1)
}

// middle returns the token in the middle of the range that ends at tokens[i]; ok is false if it is too narrow.
func (w *walker) middle(i int) (tok ring.Token, ok bool) {
	before := w.tokens[(i+len(w.tokens)-1)%len(w.tokens)]
	width := uint64(w.tokens[i]) - uint64(before)
	tok = ring.Token(uint64(before) + width/2)
	return tok, width >= 4 && tok != ring.MinToken
}
