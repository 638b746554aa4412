package ring

import (
	"cmp"
	"slices"
)

// improvePasses bounds the search: each pass tries to move every token once.
const improvePasses = 6

// improve moves the tokens of a joining node to better places, one at a time, while that makes
// ownership more even. Candidates are points inside the present ranges.
func improve(t *Topology, datacenter string, tokens []Token, factor int) []Token {
	l := newLayout(t, datacenter)
	if len(l.tokens) == 0 {
		return tokens
	}
	newcomer := l.nodes
	l.nodes++
	for _, tok := range tokens {
		l.insert(tok, newcomer)
	}
	best := l.unevenness(factor)
	for range improvePasses {
		improved := false
		for i := range tokens {
			l.remove(tokens[i])
			at := tokens[i]
			for _, c := range l.candidates() {
				l.insert(c, newcomer)
				if u := l.unevenness(factor); u < best*(1-1e-9) {
					best, at, improved = u, c, true
				}
				l.remove(c)
			}
			tokens[i] = at
			l.insert(at, newcomer)
		}
		if !improved {
			break
		}
	}
	slices.Sort(tokens)
	return tokens
}

// layout is a data center's ring as plain numbers, to be tried out.
type layout struct {
	tokens []Token
	owners []int // index of the node
	nodes  int
	first  []float64 // scratch: owned as first replica
	all    []float64 // scratch: owned with all replicas
	seen   []int     // scratch: the walk that met a node last
}

func newLayout(t *Topology, datacenter string) *layout {
	l := &layout{}
	index := map[NodeID]int{}
	for i, tok := range t.tokens {
		n := t.owner[i]
		if n.Datacenter != datacenter {
			continue
		}
		if _, ok := index[n.ID]; !ok {
			index[n.ID] = len(index)
		}
		l.tokens = append(l.tokens, tok)
		l.owners = append(l.owners, index[n.ID])
	}
	l.nodes = len(index)
	return l
}

func (l *layout) insert(tok Token, owner int) {
	i, _ := slices.BinarySearch(l.tokens, tok)
	l.tokens = slices.Insert(l.tokens, i, tok)
	l.owners = slices.Insert(l.owners, i, owner)
}

func (l *layout) remove(tok Token) {
	i, _ := slices.BinarySearch(l.tokens, tok)
	l.tokens = slices.Delete(l.tokens, i, i+1)
	l.owners = slices.Delete(l.owners, i, i+1)
}

// candidates are points inside every range.
func (l *layout) candidates() []Token {
	var out []Token
	for i, end := range l.tokens {
		start := l.tokens[(i+len(l.tokens)-1)%len(l.tokens)]
		w := uint64(end) - uint64(start)
		for k := uint64(1); k < 8; k++ {
			if c := Token(uint64(start) + w/8*k); w >= 16 && c != MinToken {
				out = append(out, c)
			}
		}
	}
	slices.SortFunc(out, cmp.Compare[Token])
	return out
}

// unevenness is how far apart the nodes' shares lie: the squares of what each owns beyond the mean,
// with all replicas and, weighted less, as first replica.
func (l *layout) unevenness(factor int) float64 {
	l.first = append(l.first[:0], make([]float64, l.nodes)...)
	l.all = append(l.all[:0], make([]float64, l.nodes)...)
	l.seen = append(l.seen[:0], make([]int, l.nodes)...)
	factor = min(factor, l.nodes)
	for i, end := range l.tokens {
		w := float64(uint64(end)-uint64(l.tokens[(i+len(l.tokens)-1)%len(l.tokens)])) / ringSize
		l.first[l.owners[i]] += w
		for k, found := i, 0; found < factor; k = (k + 1) % len(l.tokens) {
			if o := l.owners[k]; l.seen[o] != i+1 {
				l.seen[o] = i + 1
				l.all[o] += w
				found++
			}
		}
	}
	var u float64
	mean, meanAll := 1/float64(l.nodes), float64(factor)/float64(l.nodes)
	for i := range l.nodes {
		d, a := (l.first[i]-mean)/mean, (l.all[i]-meanAll)/meanAll
		u += a*a + d*d/4
	}
	return u
}
