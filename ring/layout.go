package ring

import (
	"slices"
	"sort"
)

// ringSize is the number of tokens.
const ringSize = float64(1<<63) * 2

// layout represents one data center's ring as plain numbers, to try token positions. It updates the ownership of
// every node when tokens are inserted and removed, at the cost of the affected ranges.
type layout struct {
	tokens []Token // ascending
	owners []int   // index of the node that owns tokens[i]
	racks  []int   // of each node
	factor int     // counted replicas; fewer than there are nodes
	// repeats is the number of replicas that may be placed in racks that already have one.
	repeats int
	// owned[node*factor+k] is the share of the ring that a node holds as its k-th replica or an earlier one.
	owned []float64

	walkID   int   // number of the current walk
	seenNode []int // the last walk that selected this node
	seenRack []int // the last walk that visited this rack
}

// newLayout returns the ring of datacenter with one additional node, in rack, which has the last index.
func newLayout(t *Topology, datacenter, rack string, factor int) *layout {
	l := &layout{}
	index, rackIndex := map[NodeID]int{}, map[string]int{}
	add := func(rack string) {
		if _, ok := rackIndex[rack]; !ok {
			rackIndex[rack] = len(rackIndex)
		}
		l.racks = append(l.racks, rackIndex[rack])
	}
	// The ring after all operations in progress: tokens that are moving count where they will be.
	for i, tok := range t.final.tokens {
		n := t.final.owner[i]
		if n.Datacenter != datacenter {
			continue
		}
		if _, ok := index[n.ID]; !ok {
			index[n.ID] = len(index)
			add(n.Rack)
		}
		l.tokens = append(l.tokens, tok)
		l.owners = append(l.owners, index[n.ID])
	}
	add(rack)
	// factor is less than the number of nodes, because all nodes together own everything.
	l.factor = max(1, min(factor, len(l.racks)-1))
	// repeats derives from the whole factor, as in tokenRing.placements, because walks here must select the same
	// nodes as placement does.
	l.repeats = max(0, factor-len(rackIndex))
	l.owned = make([]float64, len(l.racks)*l.factor)
	l.seenNode, l.seenRack = make([]int, len(l.racks)), make([]int, len(rackIndex))
	for i := range l.tokens {
		l.account(i, 1)
	}
	return l
}

func (l *layout) newcomer() int { return len(l.racks) - 1 }

// find returns the index of the first token ≥ tok, and whether it is tok.
func (l *layout) find(tok Token) (int, bool) {
	i := sort.Search(len(l.tokens), func(i int) bool { return l.tokens[i] >= tok })
	return i, i < len(l.tokens) && l.tokens[i] == tok
}

// width returns the share of the ring of the range that ends at tokens[i].
func (l *layout) width(i int) float64 {
	// The difference of the token to itself would be zero.
	if len(l.tokens) == 1 {
		return 1
	}
	before := i - 1
	if before < 0 {
		before = len(l.tokens) - 1
	}
	return float64(uint64(l.tokens[i])-uint64(l.tokens[before])) / ringSize
}

// account adds the range that ends at tokens[i], times sign, to the ownership of its replicas, and returns the number
// of tokens that it walked past to find them.
func (l *layout) account(i int, sign float64) int {
	w := l.width(i) * sign
	// Marks of earlier walks have other numbers, so the slices need not be cleared.
	l.walkID++
	found, repeats, at := 0, l.repeats, i
	for step := 0; step < len(l.tokens); step++ {
		o := l.owners[at]
		if at++; at == len(l.tokens) {
			at = 0
		}
		if l.seenNode[o] == l.walkID {
			continue
		}
		if rack := l.racks[o]; l.seenRack[rack] != l.walkID {
			l.seenRack[rack] = l.walkID
		} else if repeats > 0 {
			repeats--
		} else {
			continue
		}
		l.seenNode[o] = l.walkID
		// A node that holds the range as its found-th replica also counts for all larger numbers of replicas.
		for k := found; k < l.factor; k++ {
			l.owned[o*l.factor+k] += w
		}
		if found++; found == l.factor {
			return step + 1
		}
	}
	return len(l.tokens)
}

// takeBack subtracts the ranges before index p whose walks reach p, and returns their number. The walk of an earlier
// range never ends later, so takeBack stops at the first walk that does not reach p.
func (l *layout) takeBack(p, most int) int {
	n := len(l.tokens)
	for back := 1; back <= most; back++ {
		i := p - back
		if i < 0 {
			i += n
		}
		// The walk did not reach p: the range is not affected, and gets its share back.
		if l.account(i, -1) <= back {
			l.account(i, 1)
			return back - 1
		}
	}
	return max(0, most)
}

// accountFrom adds count ranges, starting at p-back, each once.
func (l *layout) accountFrom(p, back, count int, sign float64) {
	n := len(l.tokens)
	for k := range min(count, n) {
		l.account((p-back+k+n)%n, sign)
	}
}

// insert assigns tok, which no node owns, to owner.
func (l *layout) insert(tok Token, owner int) {
	p, _ := l.find(tok)
	if n := len(l.tokens); n > 0 {
		// The range that tok divides, and all earlier ranges whose walks pass p, change.
		l.account(p%n, -1)
		back := l.takeBack(p%n, n-1)
		l.place(p, tok, owner)
		l.accountFrom(p, back, back+2, 1)
		return
	}
	l.place(p, tok, owner)
	l.account(p, 1)
}

// remove removes tok from its owner; another token remains.
func (l *layout) remove(tok Token) {
	p, _ := l.find(tok)
	n := len(l.tokens)
	l.account(p, -1)
	// The range after tok takes over the range of tok.
	l.account((p+1)%n, -1)
	back := l.takeBack(p, n-2)
	l.displace(p)
	l.accountFrom(p, back, back+1, 1)
}

// place and displace change the tokens without updating ownership.
func (l *layout) place(p int, tok Token, owner int) {
	l.tokens, l.owners = slices.Insert(l.tokens, p, tok), slices.Insert(l.owners, p, owner)
}

func (l *layout) displace(p int) {
	l.tokens, l.owners = slices.Delete(l.tokens, p, p+1), slices.Delete(l.owners, p, p+1)
}

// unevenness measures the differences between the nodes' shares: the squares of their deviations from the mean, as
// first replica, with all replicas, and, with less weight, with fewer.
func (l *layout) unevenness() float64 {
	nodes := len(l.racks)
	var sum float64
	for k := range l.factor {
		mean := float64(k+1) / float64(nodes)
		weight := 0.25
		if k == 0 || k == l.factor-1 {
			weight = 1
		}
		for i := range nodes {
			d := (l.owned[i*l.factor+k] - mean) / mean
			sum += float64(weight * d * d) // converted explicitly, so that no machine fuses it with the sum
		}
	}
	return sum
}
