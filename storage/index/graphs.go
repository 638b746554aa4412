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

// graphs keeps the vectors of entries in graphs in memory, so that searches ByScore need not compare all entries.
//
// Invariant: a graph that is ready, together with what is pending for it, has each entry of its index. It may have
// entries that were removed. Searches verify each entry that they find against its row.
//
// A graph is filled by Values.Refresh: from the stored entries first, and then from pending. If more is pending than
// fits, or rows were ingested, the graph is not ready until the stored entries were compared with it again.
type graphs struct {
	// mu is not held while a graph is searched or filled: vector.Index has its own lock, and either may take long.
	// Lock order: graph.applying, mu.
	mu sync.Mutex
	// of has the graphs by index. An index has no graph if it is not built, or if filling has not begun since the
	// start.
	of map[schema.StorageID]*graph
	// bytesMax bounds all graphs together; zero means no bound. It is constant.
	bytesMax int64

	searches, scans, scores atomic.Uint64 // GraphStats
}

// graph is the graph of one index. Its fields except nearest and applying are guarded by graphs.mu.
type graph struct {
	// drain holds applying exclusively while it removes entries from nearest; the last attempt of a search holds it
	// shared.
	applying sync.RWMutex
	nearest  *vector.Index // by entry
	ready    bool
	full     bool   // it has too many bytes and is not filled
	excess   int    // of a full one: when as many entries more were removed than added, it is filled again
	after    []byte // the last entry with which it was compared, unless it is ready
	epoch    int    // grows when the comparison begins again
	// pending contains committed changes by entry that are not yet applied to nearest. A later change of an entry
	// replaces an earlier one.
	pending map[string]change
	// changes is the number of the last change. With it, drain applies changes in order and detects replaced ones.
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

// forget records that an entry is removed. The caller holds the write latch of its partition.
func (g *graphs) forget(index schema.StorageID, entry []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.change(index, string(entry), nil)
}

// g.mu is held. Without a graph, no change is recorded; for a full graph, changes are only counted.
func (g *graphs) change(index schema.StorageID, entry string, vector []byte) {
	x := g.of[index]
	if x == nil {
		return
	}
	if x.full {
		x.count(vector != nil)
		return
	}
	// Searches compare all pending vectors, so their number is bounded. Beyond the bound they are dropped, and the
	// graph is compared with all stored entries again.
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
	// The vectors in the graph stay: compareEntries adds only missing ones.
	x.ready, x.after, x.pending = false, nil, map[string]change{}
	// A new epoch keeps a running comparison from making the graph ready.
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

// view is a snapshot of a ready graph and its pending changes.
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
	// pending is bounded, so it is copied for the search, which reads it without the lock.
	return view{x, x.nearest, maps.Clone(x.pending), x.changes}
}

// removedSince reports whether an entry that was removed after find returned v has left the graph since. A search of
// the graph may then have missed the row: the old entry was removed before the search reached it, and the new one was
// added in a part that the search had already passed.
func (g *graphs) removedSince(v *view) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	// removed is read from the graph that was searched: drain may still be changing it, even if the graph was dropped
	// meanwhile.
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
		// removed is set before the graph changes, so that searches in progress notice.
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
		// If the numbers differ, a later change has replaced the applied one, and stays pending.
		if x.pending[entry].number == list[i].number {
			delete(x.pending, entry)
		}
	}
	return len(entries)
}

// remove removes the entries of a batch whose change has no vector. It waits for searches that hold applying, and
// these wait for the whole batch. Additions take longer, and are applied without the lock.
func (x *graph) remove(entries []string, list []change) {
	x.applying.Lock()
	defer x.applying.Unlock()
	for i, entry := range entries {
		if list[i].vector == nil {
			x.nearest.Delete(entry)
		}
	}
}

// set adds a vector. Vectors that cannot be compared have no entry, so Set cannot fail.
func (x *graph) set(entry string, vector []byte) {
	_ = x.nearest.Set(entry, similarity.Decode(nil, vector))
}

// Graphs is the result of Refresh.
type Graphs struct {
	Any  bool // there are vector indexes
	More bool // vectors wait
}

// exceeded reports whether all graphs together exceed their bound in bytes. The caller then drops the graph that
// grows, and keeps those that are filled.
func (g *graphs) exceeded() bool {
	if g.bytesMax == 0 {
		return false
	}
	// The sum is computed each time, because graphs are few and change their size independently.
	all := int64(0)
	for _, one := range g.of {
		all += one.nearest.Bytes()
	}
	return all > g.bytesMax
}

// GraphStats describes the graphs of vectors of this node.
type GraphStats struct {
	// Ready counts the graphs that searches use, Filling the graphs that lack vectors, and Full the graphs that were
	// dropped because they would be too large; these are filled again when enough entries have been removed.
	Ready, Filling, Full int
	// Vectors and Bytes are sums over all graphs. Pending vectors are not in a graph yet.
	Vectors, Bytes, Pending int64
	// Searches counts the steps of searches that used a graph, and Scans the steps that read all entries instead,
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
	// Pending changes are applied first, because they slow searches down; stored entries use the rest of n.
	g := x.graphs.begin(d)
	n -= x.graphs.drain(g, n)
	x.graphs.mu.Lock()
	// A graph that was dropped meanwhile is not accounted. A graph that becomes full is replaced by an empty one,
	// which frees its memory.
	if !g.full && x.graphs.of[d.ID] == g && (g.nearest.Bytes() > x.bytes || x.graphs.exceeded()) {
		// The graph is filled again after half of its vectors were removed, so that filling in vain costs two
		// insertions for each removal.
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
	// If the epoch has changed, method again was called meanwhile, and the comparison restarts at the first entry.
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
		// Entries that are in the graph already cost little, but are bounded as well, so that a step ends soon.
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

// inGraph offers the entries that the graph of the index finds: the best ones after the position of the query, and
// all pending ones. Of entries with equal scores it offers all, because their places decide. It returns false if the
// index has no ready graph.
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
	// Constant removals must not force each search to read all entries, so the last attempt makes removals wait.
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
	// If the index was dropped and created again meanwhile, its new graph is not the locked one.
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
		// Removed entries are pending without a vector; accept below skips them.
		if c.vector != nil {
			s.offer(best, []byte(entry), c.vector)
		}
	}
	accept := func(entry string) bool {
		// The entry was offered above with its current vector, or is removed.
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

// forgetVector records that an entry is removed. The caller holds the write latch of its partition.
func (x *Values) forgetVector(d *Definition, entry []byte) {
	if d.Vectors != nil {
		x.graphs.forget(d.ID, entry)
	}
}

// take collects a vector of the commit in progress, for settleVectors.
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
