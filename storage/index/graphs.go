package index

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"cqld/schema"
	"cqld/storage/index/vector"
	"cqld/types/similarity"
)

// graphs keeps the vectors of entries in graphs in memory, so that searches ByScore need not look at all entries.
//
// Invariant: a graph that is ready, together with what is pending for it, has each entry of its index. It may have
// entries that were removed. Searches look at the row of each entry that they find.
//
// A graph is filled by Values.Refresh: from the stored entries first, and then from pending. If more is pending than
// fits, or rows were ingested, the graph is not ready until the stored entries were compared with it again.
type graphs struct {
	// mu is not held while a graph is searched or filled: vector.Index has its own lock, and either may take long. It
	// is taken after graph.applying.
	mu sync.Mutex
	// By index. An index without a graph has not been filled since the start, or is not built.
	of map[schema.StorageID]*graph
	// bytesMax bounds all graphs together; zero means no bound. It is constant.
	bytesMax int64

	searches, scans, scores atomic.Uint64 // GraphStats
}

// graph is the graph of one index. Its fields except nearest and applying are guarded by graphs.mu.
type graph struct {
	// drain holds applying while entries leave nearest, and the last attempt of a search shares it.
	applying sync.RWMutex
	nearest  *vector.Index // by entry
	ready    bool
	full     bool   // it has too many bytes and is not filled
	excess   int    // of a full one: when as many entries more were removed than added, it is filled again
	after    []byte // the last entry with which it was compared, unless it is ready
	epoch    int    // grows when the comparison begins again
	// Changes by entry that are committed and not yet applied to nearest. A later change of an entry replaces the
	// earlier.
	pending map[string]change
	// The number of the last change, so that drain applies changes in order and sees whether one was replaced.
	changes int // in all
	// removed is the number of the last removal that drain began to apply.
	removed int
}

// change is an entry that was added, or removed if vector is nil.
type change struct {
	vector []byte
	number int
}

// added is an entry with a vector that a commit adds.
type added struct {
	index         schema.StorageID
	entry, vector []byte
}

// record notes entries that were committed.
func (g *graphs) record(list []added) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range list {
		g.change(a.index, string(a.entry), slices.Clone(a.vector))
	}
}

// forget notes that an entry is removed. The write latch of its partition is held.
func (g *graphs) forget(index schema.StorageID, entry []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.change(index, string(entry), nil)
}

// g.mu is held. An index without a graph needs no changes, and of a full one they are counted.
func (g *graphs) change(index schema.StorageID, entry string, vector []byte) {
	x := g.of[index]
	if x == nil {
		return
	}
	if x.full {
		x.count(vector != nil)
		return
	}
	// Searches compare all pending vectors, so there must be few. Comparing the stored entries again finds the changes
	// that are forgotten here.
	if len(x.pending) >= pendingMax {
		x.again()
	}
	x.changes++
	x.pending[entry] = change{vector, x.changes}
}

// count counts a change of a full graph, and lets the graph be filled again when enough entries were removed.
func (x *graph) count(added bool) {
	if added {
		x.excess++
		return
	}
	if x.excess--; x.excess <= 0 {
		x.full = false
		x.again()
	}
}

// again makes the graph unready until all entries were compared with it again.
func (x *graph) again() {
	// The vectors in the graph stay: compareEntries adds only those that it does not have.
	x.ready, x.after, x.pending = false, nil, map[string]change{}
	// A comparison that runs now must not make the graph ready.
	x.epoch++
}

// compare makes the graph of an index unready.
func (g *graphs) compare(index schema.StorageID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if x := g.of[index]; x != nil {
		x.again()
	}
}

// ingest calls commit, which adds entries that are not recorded. It makes the graphs unready before and after commit,
// because a comparison that Refresh begins meanwhile may use a view of the database without the new entries.
func (g *graphs) ingest(of []Definition, commit func() error) error {
	again := func() {
		for i := range of {
			if of[i].Vectors != nil {
				g.compare(of[i].ID)
			}
		}
	}
	again() // until the entries are visible, and from then on
	defer again()
	return commit()
}

// drop removes the graph of an index.
func (g *graphs) drop(index schema.StorageID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.of, index)
}

// view is a graph that is ready, at one moment.
type view struct {
	graph   *graph // nil if the index has none that is ready
	nearest *vector.Index
	pending map[string]change // a copy
	changes int               // the number of the last change, for removedSince
}

// find returns the graph of an index if it is ready. Each row with a vector has an entry in nearest or in pending: the
// commit that replaces a vector is recorded before the latch of its partition is released, and the old entry is removed
// under the latch.
func (g *graphs) find(index schema.StorageID) view {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.of[index]
	if x == nil || !x.ready {
		return view{}
	}
	// A copy of a bounded map: the search reads it without the lock.
	return view{x, x.nearest, maps.Clone(x.pending), x.changes}
}

// removedSince reports whether an entry that was removed after find returned v has left the graph since. A search of
// the graph may then have missed the row: its old entry was gone when the search came to it, and the new one was added
// where the search had been.
func (g *graphs) removedSince(v *view) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	// Of the graph that was searched: drain may change it until it ends, even if the graph was dropped meanwhile.
	return v.graph.removed > v.changes
}

// begin returns the graph of an index, a new one if it has none. A new graph is not ready, and records changes from now
// on.
func (g *graphs) begin(d *Definition) *graph {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.of[d.ID]
	if x == nil {
		x = &graph{nearest: emptyGraph(d), pending: map[string]change{}}
		if g.of == nil {
			g.of = map[schema.StorageID]*graph{}
		}
		g.of[d.ID] = x
	}
	return x
}

// emptyGraph returns a graph without vectors. The seed is the index, so that a graph that is filled in the same order
// has the same shape after a restart.
func emptyGraph(d *Definition) *vector.Index {
	return vector.New(vector.Options{Dimensions: d.Vectors.Dimensions, Function: d.Vectors.Similarity,
		Seed: uint64(d.ID)})
}

// drain applies up to n pending changes, the oldest first, and returns how many there were. Only Refresh calls it, so
// no other goroutine applies changes at the same time.
func (g *graphs) drain(x *graph, n int) (applied int) {
	g.mu.Lock()
	entries := slices.SortedFunc(maps.Keys(x.pending), func(a, b string) int {
		return x.pending[a].number - x.pending[b].number
	})
	entries = entries[:min(n, len(entries))]
	list := make([]change, len(entries))
	for i, entry := range entries {
		// Before the graph changes, for searches that are under way.
		if list[i] = x.pending[entry]; list[i].vector == nil {
			x.removed = list[i].number
		}
	}
	// The graph is changed without the lock. An entry stays pending until it is in the graph, so a search finds it in
	// one of the two.
	g.mu.Unlock()
	for i, entry := range entries {
		if list[i].vector != nil {
			x.set(entry, list[i].vector)
		}
	}
	x.remove(entries, list)
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, entry := range entries {
		// Otherwise a later change has replaced the one that was applied.
		if x.pending[entry].number == list[i].number {
			delete(x.pending, entry)
		}
	}
	return len(entries)
}

// remove removes the entries of a batch whose change has no vector. It waits for searches that share the graph, and
// they for the whole batch: additions, which take longer, are applied without the lock.
func (x *graph) remove(entries []string, list []change) {
	x.applying.Lock()
	defer x.applying.Unlock()
	for i, entry := range entries {
		if list[i].vector == nil {
			x.nearest.Delete(entry)
		}
	}
}

// set adds a vector. One that cannot be compared has no entry, so the error is impossible.
func (x *graph) set(entry string, vector []byte) {
	_ = x.nearest.Set(entry, similarity.Decode(nil, vector))
}

// Graphs is what Refresh found.
type Graphs struct {
	Any  bool // there are vector indexes
	More bool // vectors wait
}

// exceeded reports whether all graphs together have more bytes than they may. The graph that grows is then given up,
// and those that have been filled before stay.
func (g *graphs) exceeded() bool {
	if g.bytesMax == 0 {
		return false
	}
	// Computed each time, because graphs grow and shrink on their own and are few.
	all := int64(0)
	for _, one := range g.of {
		all += one.nearest.Bytes()
	}
	return all > g.bytesMax
}

// GraphStats describes the graphs of vectors of this node.
type GraphStats struct {
	// Ready counts the graphs that searches use, Filling those that do not have all vectors yet, and Full those that
	// are not kept because they would be too large, until enough entries are removed.
	Ready, Filling, Full int
	// Vectors and Bytes are sums over all graphs. Pending vectors are not in a graph yet.
	Vectors, Bytes, Pending int64
	// Searches counts the steps of searches that used a graph, and Scans those that looked at all entries instead,
	// since the start. Visited counts the vectors that searches of graphs compared.
	Searches, Scans, Visited uint64
}

// GraphStats returns the state of the graphs.
func (x *Values) GraphStats() GraphStats {
	g := &x.graphs
	s := GraphStats{Searches: g.searches.Load(), Scans: g.scans.Load(), Visited: g.scores.Load()}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range g.of {
		switch {
		case one.full:
			s.Full++
		case one.ready:
			s.Ready++
		default:
			s.Filling++
		}
		s.Vectors += int64(one.nearest.Len())
		s.Bytes += one.nearest.Bytes()
		s.Pending += int64(len(one.pending))
	}
	return s
}

// Refresh fills the graphs of the vector indexes of tables that are built, by up to n vectors of each. One goroutine at
// a time may call it. found.More means that the caller should call again soon.
func (x *Values) Refresh(tables []schema.StorageID, n int) (found Graphs, err error) {
	for _, table := range tables {
		for _, d := range x.definitions(table) {
			if d.Vectors == nil || !x.Built(table, d.ID) {
				continue
			}
			more, err := x.refresh(table, &d, n)
			if err != nil {
				return found, err
			}
			found.Any, found.More = true, found.More || more
		}
	}
	return found, nil
}

func (x *Values) refresh(table schema.StorageID, d *Definition, n int) (more bool, err error) {
	// First come the pending changes, since they make searches slower, then stored entries with what is left of n.
	g := x.graphs.begin(d)
	n -= x.graphs.drain(g, n)
	x.graphs.mu.Lock()
	// A graph that was dropped meanwhile is not accounted. A full one gives its memory back by an empty index in its
	// place.
	if !g.full && x.graphs.of[d.ID] == g && (g.nearest.Bytes() > x.bytes || x.graphs.exceeded()) {
		// Half of the vectors that it has, so that filling it in vain costs two insertions for each removal.
		g.excess = (g.nearest.Len() + 1) / 2
		g.full, g.ready, g.pending, g.nearest = true, false, nil, emptyGraph(d)
	}
	done, after, epoch := g.ready || g.full, g.after, g.epoch
	more = len(g.pending) > 0
	x.graphs.mu.Unlock()
	if done || n <= 0 {
		return more || !done, nil
	}
	last, ended, err := x.compareEntries(table, d, g, after, n)
	if err != nil {
		return false, err
	}
	x.graphs.mu.Lock()
	defer x.graphs.mu.Unlock()
	// Otherwise method again was called since after was read: the comparison begins at the first entry.
	if g.epoch == epoch {
		g.after, g.ready = last, ended
	}
	return !g.ready || len(g.pending) > 0, nil
}

// compareEntries adds the vectors of stored entries after one of them that the graph does not have, up to n. ended
// means that no entry follows last. Entries that were removed stay in the graph; searches read the row of each.
func (x *Values) compareEntries(table schema.StorageID, d *Definition, g *graph, after []byte, n int) (last []byte,
	ended bool, err error) {
	from := appendIndex(nil, d.ID)
	if after != nil {
		from = append(append(from[:0], after...), 0)
	}
	entries, err := x.host.Entries(table, from, appendIndex(nil, d.ID+1))
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if closeErr := entries.Close(); err == nil {
			err = closeErr
		}
	}()
	seen := 0
	for valid := entries.First(); valid; valid = entries.Next() {
		// Entries that the graph has cost little, but are bounded too, so that a step ends soon.
		if n == 0 || seen == compareMax {
			return last, false, nil
		}
		seen++
		if last = append(last[:0], entries.Key()...); g.nearest.Has(string(last)) {
			continue
		}
		value, err := entries.Value()
		if err != nil {
			return nil, false, err
		}
		g.set(string(last), value)
		n--
	}
	return nil, true, nil
}

// inGraph passes entries on to offer that the graph of the index finds, as far as it has one: the best ones after the
// position of the query, and all that are pending. Of entries with equal scores, it passes on all: their places decide.
func (s *search) inGraph(best *bestScored) (ok bool) {
	g := &s.x.graphs
	for range graphAttempts {
		v := g.find(s.q.Index)
		if v.graph == nil {
			break
		}
		s.searchGraph(best, &v)
		if !g.removedSince(&v) {
			return true
		}
		best.list, best.dropped = best.list[:0], false
	}
	// Entries that leave the graph all the time must not make each search look at all entries.
	if s.inSharedGraph(best) {
		return true
	}
	g.scans.Add(1)
	return false
}

// inSharedGraph is inGraph while no entry leaves the graph.
func (s *search) inSharedGraph(best *bestScored) (ok bool) {
	g := &s.x.graphs
	x := g.find(s.q.Index).graph
	if x == nil {
		return false
	}
	x.applying.RLock()
	defer x.applying.RUnlock()
	// Another graph, of an index that was dropped and created again meanwhile, is not locked.
	v := g.find(s.q.Index)
	if v.graph != x {
		return false
	}
	s.searchGraph(best, &v)
	return true
}

// searchGraph is inGraph for a graph and what is pending for it.
func (s *search) searchGraph(best *bestScored, v *view) {
	s.x.graphs.searches.Add(1)
	for entry, c := range v.pending {
		// Removed entries are pending too, so that accept below leaves them out.
		if c.vector != nil {
			s.offer(best, []byte(entry), c.vector)
		}
	}
	accept := func(entry string) bool {
		// Offered above with its present vector, or removed.
		if _, changed := v.pending[entry]; changed {
			return false
		}
		e, ok := parseEntry([]byte(entry))
		return ok && s.bounds.contains(e.place) && (s.q.Holds == nil || s.q.Holds(e.key.Token))
	}
	found := v.nearest.Search(s.near, max(best.most, graphBeam), accept)
	defer func() {
		s.x.graphs.scores.Add(uint64(found.Scores()))
		found.Close()
	}()
	var raw []byte
	for offered := 0; ; {
		r, ok := found.Next()
		if !ok {
			return
		}
		// The graph returns vectors by descending score, so no better one follows. The margin of worst covers the
		// rounding of scores.
		if offered > best.most && r.Score < best.worst() {
			best.dropped = true
			return
		}
		if raw = encode(raw[:0], r.Vector); s.offer(best, []byte(r.Key), raw) {
			offered++
		}
	}
}

// forgetVector notes that an entry is removed. The write latch of its partition is held.
func (x *Values) forgetVector(d *Definition, entry []byte) {
	if d.Vectors != nil {
		x.graphs.forget(d.ID, entry)
	}
}

// take notes a vector that enters, for settleVectors.
func (s *scratch) take(index schema.StorageID, entry, vector []byte) {
	s.added = append(s.added, added{index, slices.Clone(entry), slices.Clone(vector)})
}

// settleVectors records the vectors of a commit. They are discarded if the commit failed.
func (x *Values) settleVectors(err error) {
	if len(x.entering.added) == 0 {
		return
	}
	if err == nil {
		x.graphs.record(x.entering.added)
	}
	x.entering.added = x.entering.added[:0]
}
