package vector

import "slices"

// Search is a running search. One goroutine may use it at a time.
type Search struct {
	x     *Index
	query point
	// nil accepts every key. It is called without locks, in the goroutine of the search.
	accept func(key string) bool
	beam   int

	seen    *visited
	open    heap        // seen, links not followed
	found   heap        // accepted, not yet in a batch
	batch   []candidate // to yield, from the end
	scanned bool        // every node was seen
	scores  int         // computed
}

// Result is a key with its vector, which must not be changed, and its score.
type Result struct {
	Key    string
	Vector []float32
	Score  float32
}

// Search begins a search for the vectors nearest to query, which has the dimensions of the index and passes Check.
// accept, if not nil, is called for each key that is met and decides whether the search may yield it. beam is the
// number of candidates that are considered before a batch of them is yielded: at least the number of results that are
// expected; more give a better recall. Close must be called.
func (x *Index) Search(query []float32, beam int, accept func(key string) bool) *Search {
	s := &Search{x: x, query: pointOf(x.o.Function, slices.Clone(query)), accept: accept, beam: max(beam, 1),
		seen: x.borrow()}
	entry := x.entry.Load()
	switch {
	case entry == nil:
		s.scanned = true
	// Small indexes are scanned: the result is exact, and at this size a scan costs about as much as the graph.
	case x.Len() <= x.o.Exact:
		s.scan()
	default:
		c := x.descend(&s.query, entry, 0)
		s.seen.add(c.node.slot)
		s.visit(c)
	}
	return s
}

// Close releases the search. A second call does nothing.
func (s *Search) Close() {
	if s.seen != nil {
		s.seen.reset()
		s.x.pool.Put(s.seen)
		s.seen = nil
	}
}

// Scores returns the number of scores that the search has computed: its cost.
func (s *Search) Scores() int { return s.scores }

// Next yields the next best key that was not deleted since it was met.
func (s *Search) Next() (Result, bool) {
	for {
		if len(s.batch) == 0 && !s.fill() {
			return Result{}, false
		}
		c := s.batch[len(s.batch)-1]
		s.batch = s.batch[:len(s.batch)-1]
		// The key may have been deleted or replaced since its batch was made.
		if !c.node.dead() {
			return Result{c.node.key, c.node.vector, score(s.x.o.Function, c.distance)}, true
		}
	}
}

// fill walks on through the graph until the nearest open node is farther than beam accepted ones, which become the
// batch.
func (s *Search) fill() bool {
	// The batch was yielded as a whole, so its memory serves the next one.
	best := heap{items: s.batch[:0], farthest: true} // the nearest beam of those found
	// take moves accepted nodes into best as long as they are among the beam nearest. A node that another one displaces
	// returns to found, for a later batch.
	take := func() {
		for len(s.found.items) > 0 {
			switch {
			case len(best.items) < s.beam:
			case s.found.items[0].distance < best.items[0].distance:
				s.found.push(best.pop())
			default:
				return
			}
			best.push(s.found.pop())
		}
	}
	take()
	for !s.scanned && len(s.open.items) > 0 {
		// The walk ends under the same condition as in Index.beam. The open nodes stay for the next batch.
		if len(best.items) == s.beam && s.open.items[0].distance > best.items[0].distance {
			break
		}
		// The filter rejects most keys, or the caller requests many results. A scan computes each remaining score
		// once, without following links.
		if s.scores > s.x.o.Exact && s.scores > s.x.Len()/scanDivisor {
			s.scan()
			break
		}
		for _, m := range s.open.pop().node.at(0) {
			if m.state.Load() != released && s.seen.add(m.slot) {
				s.visit(candidate{s.x.distance(&s.query, &m.point), m})
			}
		}
		take()
	}
	if len(best.items) < s.beam && !s.scanned { // some nodes may be reached by no link
		s.scan()
	}
	take()
	// Descending, because Next takes results from the end.
	slices.SortFunc(best.items, func(a, b candidate) int { return compare(b, a) })
	s.batch = best.items
	return len(s.batch) > 0
}

// visit adds a node that was not seen before.
func (s *Search) visit(c candidate) {
	s.scores++
	// During a scan no links are followed, so open need not grow.
	if !s.scanned {
		s.open.push(c)
	}
	if !c.node.dead() && (s.accept == nil || s.accept(c.node.key)) {
		s.found.push(c)
	}
}

// scan visits all nodes that were not seen. The open nodes are dropped, because all their neighbors are in the table.
func (s *Search) scan() {
	s.scanned, s.open = true, heap{}
	for i, c := range *s.x.chunks.Load() {
		for j := range c {
			n := c[j].Load()
			if n != nil && !n.dead() && s.seen.add(uint32(i*chunkSize+j)) {
				s.visit(candidate{s.x.distance(&s.query, &n.point), n})
			}
		}
	}
}

// visited is a set of slots.
type visited struct {
	// One bit per slot. It grows to the largest slot that was added.
	words   []uint64
	touched []uint32 // words that are not 0
}

// borrow returns an empty set from the pool. The caller resets it before it returns it.
func (x *Index) borrow() *visited {
	if v, ok := x.pool.Get().(*visited); ok {
		return v
	}
	return &visited{}
}

// add adds a slot and reports whether it was not in the set.
func (v *visited) add(slot uint32) bool {
	word, bit := slot/64, uint64(1)<<(slot%64)
	if int(word) >= len(v.words) {
		v.words = append(v.words, make([]uint64, int(word)+1-len(v.words))...)
	}
	w := &v.words[word]
	if *w&bit != 0 {
		return false
	}
	if *w == 0 {
		v.touched = append(v.touched, word)
	}
	*w |= bit
	return true
}

// reset empties the set. It clears only words that were touched, so its cost depends on the search, not on the index.
func (v *visited) reset() {
	for _, w := range v.touched {
		v.words[w] = 0
	}
	v.touched = v.touched[:0]
}
