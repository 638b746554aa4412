package index

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// ErrNotBuilt is the error of a search by an index whose entries are not complete.
var ErrNotBuilt = errors.New("index: the index is not built")

// Values maintains the value indexes of one engine: a storage.Maintainer with an entry for each term of each row.
// Writes add entries and read nothing, so an entry may contain a value that was overwritten or deleted since;
// searches verify entries against rows.
//
// Invariant: if an index is built, each row that has a term has its entry. The opposite may fail.
//
//   - The entries of a change are in its batch, or on disk before it. An entry is removed under the write side of the
//     latch of its partition, when the stored row no longer has the term.
//   - The mark of each index with entries records whether it is built, and otherwise the position of its build. An
//     index that is unknown while rows of its table are written is void: it is built again if it becomes known again.
//
// Lock order: building, latches of storage, deciding, mu.
type Values struct {
	// The function of NewValues.
	definitions func(schema.StorageID) []Definition
	host        *storage.Host
	// states contains the indexes with a mark, by table. The map is replaced and never modified.
	states atomic.Pointer[map[schema.StorageID][]indexState]
	mu     sync.Mutex // held by those who replace states
	// deciding is held while rows are ingested, and while a build ends.
	deciding reservation
	building sync.Mutex
	entering scratch // of Enter, which is never called twice at a time
	voiding  bool    // Enter holds deciding until Settle
	scratch  sync.Pool
	sweeps   sweeps
	graphs   graphs
	rows     int   // that a step of a build reads
	bytes    int64 // that a graph may have
	ranges   rangeBounds
}

// indexState is the state of the entries of one index.
type indexState struct {
	id    schema.StorageID
	state buildState
	// position is where the build continues; nil is the beginning.
	position []byte
	// voids counts how often rows were added without entries, or entries were lost, in this process.
	voids int
	// fenced means that all writes that were in progress when the index became known to this process are committed.
	fenced bool
	// rows and bytes count what the build has read in this process since it last began.
	rows, bytes int64
}

// SetGraphBytes bounds the memory of the graph of each index of vectors, instead of GraphBytes, and of all graphs
// together; zero means no bound of all. It is called before the engine is opened.
func (x *Values) SetGraphBytes(one, all int64) { x.bytes, x.graphs.bytesMax = one, all }

// SetSteps sets how many rows a step of a build reads, instead of buildRows; and how many entries and rows a search of
// a range examines alternately, and how many it keeps, instead of the bounds of limits.go: a step then ends after four
// times as many rows. Zero changes nothing. It is called before the engine is opened.
func (x *Values) SetSteps(buildRows, rangeEntries int) {
	if buildRows > 0 {
		x.rows = buildRows
	}
	if n := rangeEntries; n > 0 {
		x.ranges = rangeBounds{entries: n, rows: n, step: 4 * n, kept: n, merged: mergedTerms}
	}
}

// buildState is stored in marks: its numbers must not change.
type buildState uint8

const (
	unbuilt buildState = iota + 1 // new rows have entries, some older ones have not
	built
	void  // new rows have no entries
	swept // of a table, not of an index: its entries are clean (sweeps)
)

// scratch is memory for the entries of rows. It is pooled, and keeps its memory. Nothing in it is valid after it was
// put back.
type scratch struct {
	row   row.Row
	after row.Row
	found Found
	left  Found
	key   []byte
	added []added // vectors, of Enter only
}

// NewValues returns the value indexes of one engine. definitions returns the indexes of a table; it must be quick and
// safe for concurrent use, and its answer may change.
func NewValues(definitions func(schema.StorageID) []Definition) *Values {
	return &Values{definitions: definitions, rows: buildRows, bytes: GraphBytes, ranges: usualRanges(),
		sweeps:  sweeps{patience: sweepPatience},
		scratch: sync.Pool{New: func() any { return new(scratch) }}}
}

// MaintainValues lets an engine that is opened with o keep the indexes of x.
func MaintainValues(o *storage.Options, x *Values) {
	o.Maintainers = append(slices.Clone(o.Maintainers), x)
}

// Space implements storage.Maintainer. The numbers are part of the format on disk.
func (x *Values) Space() storage.KeySpace { return storage.KeySpace{Entries: 3, Marks: 'i'} }

// The mark of an index is: table 4 │ state 1 │ position.
const markFixed = 5

// mark returns the value of the mark. The index itself is the key of the mark.
func (s *indexState) mark(table schema.StorageID) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(table)), byte(s.state)), s.position...)
}

// Open implements storage.Maintainer.
func (x *Values) Open(h *storage.Host) error {
	x.host = h
	var bad error
	err := h.MarkValues(func(id schema.StorageID, value []byte) {
		// The callback cannot return an error; Open returns it after the last mark.
		if len(value) < markFixed {
			bad = errors.New("index: malformed mark of an index")
			return
		}
		if buildState(value[4]) == swept && len(value) == sweptMark {
			x.sweeps.load(id)
			return
		}
		s := indexState{id: id, state: buildState(value[4]), position: slices.Clone(value[markFixed:])}
		// An empty position on disk means the beginning.
		if len(s.position) == 0 {
			s.position = nil
		}
		x.put(schema.StorageID(binary.BigEndian.Uint32(value)), s)
	})
	return errors.Join(err, bad)
}

// Maintains implements storage.Maintainer.
func (x *Values) Maintains(table schema.StorageID) bool {
	return len(x.definitions(table)) > 0 || len(x.all()[table]) > 0
}

// all returns the states by table, which the caller must not modify.
func (x *Values) all() map[schema.StorageID][]indexState {
	if p := x.states.Load(); p != nil {
		return *p
	}
	return nil
}

// state returns the state of an index; one without a mark has none.
func (x *Values) state(table, id schema.StorageID) (s indexState, known bool) {
	for _, s := range x.all()[table] {
		if s.id == id {
			return s, true
		}
	}
	return indexState{id: id}, false
}

// put sets the state of an index; a zero state is none. It copies the map and the list, because readers use them
// without a lock.
func (x *Values) put(table schema.StorageID, s indexState) {
	x.mu.Lock()
	defer x.mu.Unlock()
	next := maps.Clone(x.all())
	if next == nil {
		next = map[schema.StorageID][]indexState{}
	}
	of := slices.DeleteFunc(slices.Clone(next[table]), func(o indexState) bool { return o.id == s.id })
	if s.state != 0 {
		of = append(of, s)
	}
	// An index that is not built has incomplete entries, so its graph is dropped.
	if s.state != built {
		x.graphs.drop(s.id)
	}
	if next[table] = of; len(of) == 0 {
		delete(next, table)
	}
	x.states.Store(&next)
}

// definition returns the definition of an index. ok is false for an index that was dropped, even if its entries still
// exist.
func (x *Values) definition(table, id schema.StorageID) (d Definition, ok bool) {
	for _, d := range x.definitions(table) {
		if d.ID == id {
			return d, true
		}
	}
	return d, false
}

// Enter implements storage.Maintainer.
func (x *Values) Enter(d storage.Derived, in *storage.Entering) {
	var e storage.Entered
	var of []Definition
	var last schema.StorageID
	var changes int64
	for in.Next(&e) {
		if e.Table != last {
			if changes > 0 {
				x.sweeps.changed(d, last, changes)
			}
			last, of, changes = e.Table, x.definitions(e.Table), 0
			// decide is called once for each run of rows of a table, before the first of its entries.
			x.decide(d, e.Table, of)
		}
		changes++
		x.entering.enter(d, of, &e, true)
	}
	if changes > 0 {
		x.sweeps.changed(d, last, changes)
	}
}

// decide records indexes that are new to this node, and voids those that are no longer defined.
func (x *Values) decide(d storage.Derived, table schema.StorageID, of []Definition) {
	for i := range of {
		if s, known := x.state(table, of[i].ID); !known {
			// New rows have entries from this commit on. A build adds the entries of older rows.
			s.state = unbuilt
			d.MarkWith(s.id, s.mark(table))
			x.put(table, s)
		}
	}
	// Comparing the numbers suffices: the loop above has made all definitions known, so a state without a definition
	// makes one more.
	if len(x.all()[table]) == len(of) {
		return // all are known
	}
	// deciding is held until Settle, so that no build marks the index as built while this commit lacks its entries.
	if !x.voiding {
		x.deciding.acquire()
		x.voiding = true
	}
	for _, s := range x.all()[table] {
		if s.state != void && !slices.ContainsFunc(of, func(d Definition) bool { return d.ID == s.id }) {
			s.state, s.position, s.voids = void, nil, s.voids+1
			d.MarkWith(s.id, s.mark(table))
			x.put(table, s)
		}
	}
}

// enter adds the entries of a written row. take means that vectors are collected for the graphs. Every cell that is
// not a tombstone has a term, even if it has expired: a value that has expired by this node's clock may be live by
// the clock of a coordinator.
func (s *scratch) enter(d storage.Derived, of []Definition, e *storage.Entered, take bool) {
	if e.Kind == row.KindRangeTombstone || len(of) == 0 || row.DecodeRow(&s.row, e.Value) != nil {
		return // the engine has checked the row
	}
	s.row.Clustering = e.Clustering
	x := Source{Key: e.Key, Kind: e.Kind, Row: &s.row}
	for i := range of {
		s.found.Reset()
		of[i].Terms.Append(&s.found, &x, anyTime)
		for k := range s.found.Len() {
			s.key = of[i].appendEntry(s.key[:0], s.found.Term(k), &x)
			d.Set(e.Table, s.key, s.found.Value(k))
			if take && of[i].Vectors != nil {
				s.take(of[i].ID, s.key, s.found.Value(k))
			}
		}
	}
}

// appendEntry appends the key of the entry of a term.
func (d *Definition) appendEntry(dst, term []byte, x *Source) []byte {
	return d.appendPlace(appendTerm(appendIndex(dst, d.ID), d.cut(term)), x)
}

// appendPlace appends the place of the row, or of its partition: all rows of a partition share one entry then.
func (d *Definition) appendPlace(dst []byte, x *Source) []byte {
	if d.Partitions {
		return AppendPlace(dst, x.Key, row.KindHeader, nil)
	}
	return AppendPlace(dst, x.Key, x.Kind, x.Row.Clustering)
}

// cut returns the part of a term that is in its entry.
func (d *Definition) cut(term []byte) []byte {
	if d.Whole || len(term) <= termMax {
		return term
	}
	return term[:termMax]
}

// Settle implements storage.Maintainer. After a failed commit, states that Enter has set may lack a mark on disk.
// Then either the engine has failed, or a later commit writes the mark.
func (x *Values) Settle(_ *storage.Entering, err error) {
	x.settleVectors(err)
	if x.voiding {
		x.voiding = false
		x.deciding.release()
	}
}

// Stage implements storage.Maintainer. It records the indexes for which all blocks of the ingestion had entries.
func (x *Values) Stage(d storage.Derived, in *storage.Entering) {
	s := x.scratch.Get().(*scratch)
	defer x.scratch.Put(s)
	var e storage.Entered
	var of []Definition
	for first := true; in.Next(&e); first = false {
		// An ingestion is of one table. Its definitions may change between blocks, see note.
		if first {
			of = x.definitions(e.Table)
			note(d, of)
		}
		s.enter(d, of, &e, false)
	}
}

// note records for Ingest which indexes have entries for the whole ingestion.
func note(d storage.Derived, of []Definition) {
	before, noted := (*d.Staged()).([]schema.StorageID)
	ids := []schema.StorageID{}
	for i := range of {
		// Only an index with entries for every block is complete at the end.
		if !noted || slices.Contains(before, of[i].ID) {
			ids = append(ids, of[i].ID)
		}
	}
	*d.Staged() = ids
}

// Ingest implements storage.Maintainer. Indexes that were unknown while some of the rows were staged become unbuilt.
func (x *Values) Ingest(d storage.Derived, table schema.StorageID, _ bool, commit func() error) error {
	x.deciding.acquire()
	defer x.deciding.release()
	staged, _ := (*d.Staged()).([]schema.StorageID)
	of := x.definitions(table)
	for i := range of {
		// The index becomes known, so that the loop below and later builds see it.
		if _, known := x.state(table, of[i].ID); !known {
			x.put(table, indexState{id: of[i].ID, state: unbuilt})
		}
	}
	for _, s := range x.all()[table] {
		if !slices.Contains(staged, s.id) {
			if err := x.void(table, s.id, unbuilt); err != nil {
				return err
			}
		}
	}
	x.sweeps.changed(d, table, ingestChanges)
	return x.graphs.ingest(of, commit)
}

// void makes an index unbuilt, because rows are added without entries or entries were lost. deciding is held. A void
// index stays void: its new rows have no entries until it is defined again.
func (x *Values) void(table, id schema.StorageID, to buildState) error {
	s, known := x.state(table, id)
	if !known {
		return nil
	}
	was := s
	s.voids++
	s.position, s.rows, s.bytes = nil, 0, 0
	if s.state != void {
		s.state = to
	}
	x.put(table, s)
	// The mark on disk already has this state.
	if was.state == s.state && was.position == nil {
		return nil
	}
	return x.host.Write(true, func(d storage.Derived) error { d.MarkWith(id, s.mark(table)); return nil })
}

// Purge implements storage.Maintainer. It removes the entries of terms that the purge removes.
func (x *Values) Purge(d storage.Derived, p *storage.Purged) {
	of := x.definitions(p.Table)
	if p.Kind == row.KindRangeTombstone || len(of) == 0 || p.Before == nil {
		return
	}
	s := x.scratch.Get().(*scratch)
	defer x.scratch.Put(s)
	if row.DecodeRow(&s.row, p.Before) != nil {
		return
	}
	// An entry is removed if its term is in the value before the purge and not in the value after it. A nil After
	// means that nothing is left.
	s.after.Reset()
	if p.After != nil && row.DecodeRow(&s.after, p.After) != nil {
		return
	}
	s.row.Clustering, s.after.Clustering = p.Clustering, p.Clustering
	before, after := Source{Key: p.Key, Kind: p.Kind, Row: &s.row}, Source{Key: p.Key, Kind: p.Kind, Row: &s.after}
	for i := range of {
		if of[i].OfKey() {
			// Other rows of the partition may have the term: Emptied removes it, in a batch that a crash may lose.
			x.sweeps.changed(d, p.Table, 1)
			continue
		}
		s.found.Reset()
		s.left.Reset()
		of[i].Terms.Append(&s.found, &before, anyTime)
		of[i].Terms.Append(&s.left, &after, anyTime)
		// Terms that are cut alike share one entry, which stays as long as any of them is left.
		for k := range s.found.Len() {
			if term := s.found.Term(k); !of[i].has(&s.left, of[i].cut(term)) {
				s.key = of[i].appendEntry(s.key[:0], term, &before)
				d.Delete(p.Table, s.key)
				x.forgetVector(&of[i], s.key)
			}
		}
	}
}

// has reports whether a term of f is cut as given.
func (d *Definition) has(f *Found, cut []byte) bool {
	for i := range f.Len() {
		if string(d.cut(f.Term(i))) == string(cut) {
			return true
		}
	}
	return false
}

// Emptied implements storage.Maintainer. It removes the entries of the partition in indexes of the partition key; those
// of values went with the values.
func (x *Values) Emptied(d storage.Derived, table schema.StorageID, key row.PartitionKey) {
	// KeyTerms requires a live row, although its terms depend only on the key.
	live := row.NewRow()
	live.Liveness.Timestamp = 0
	var found Found
	for _, def := range x.definitions(table) {
		if !def.Partitions {
			continue
		}
		source := Source{Key: key, Kind: row.KindRow, Row: live}
		found.Reset()
		def.Terms.Append(&found, &source, anyTime)
		for i := range found.Len() {
			d.Delete(table, def.appendEntry(nil, found.Term(i), &source))
		}
	}
}

// Remove implements storage.Maintainer. The entries of a part of a table are not contiguous, so searches and Sweep
// remove them.
func (x *Values) Remove(d storage.Derived, table schema.StorageID, tokens ring.Range) {
	x.sweeps.changed(d, table, ingestChanges)
	if tokens == ring.FullRange() {
		// nil bounds mean all entries of the table.
		d.DeleteRange(table, nil, nil)
		for _, def := range x.definitions(table) {
			x.graphs.drop(def.ID)
		}
	}
}

// Drop implements storage.Maintainer.
func (x *Values) Drop(d storage.Derived, table schema.StorageID) {
	for _, s := range x.all()[table] {
		d.Unmark(s.id)
		x.put(table, indexState{id: s.id})
	}
	d.Unmark(table)
	x.sweeps.forget(table)
}

// LoseEntries implements storage.Maintainer. The indexes that lose entries must be built again.
func (x *Values) LoseEntries(first, last []byte, remove func() error) error {
	// building is held, so that no build ends and the indexes stay unbuilt until the file is removed.
	x.building.Lock()
	defer x.building.Unlock()
	if err := x.voidIn(first, last); err != nil {
		return err
	}
	// deciding is not held here: remove acquires latches of storage, and an ingestion holds latches when it acquires
	// deciding.
	return remove()
}

// voidIn voids the indexes of all tables that may have had entries in a file with keys from first to last: the file
// does not name the indexes. They are voided on disk.
func (x *Values) voidIn(first, last []byte) error {
	x.deciding.acquire()
	defer x.deciding.release()
	for table, states := range x.all() {
		if !x.host.Overlaps(table, first, last) {
			continue
		}
		for _, s := range states {
			if err := x.void(table, s.id, unbuilt); err != nil {
				return err
			}
		}
	}
	return nil
}
