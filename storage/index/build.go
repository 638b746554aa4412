package index

import (
	"slices"

	"cqld/schema"
	"cqld/storage"
)

// Built reports whether an index is built on this node. The answer may be outdated when it arrives: an ingestion can
// void the index at any time. Searches therefore check the state themselves.
func (x *Values) Built(table, id schema.StorageID) bool {
	s, _ := x.state(table, id)
	return s.state == built
}

// Build executes the next step of building an index whose table has older rows: it writes the entries of some stored
// rows. Rows that are written meanwhile have entries already. more is false once the index is built, or is unknown.
// The caller pauses between steps. After a restart, the build continues where it was. An error does not end the
// build: more is true with it, and the next call repeats the step. A build passes these states:
//
//	unbuilt ─ fence ─▶ fenced ─ steps ─▶ built
//	   ▲                  │ rows came without entries (void)
//	   └──────────────────┘
func (x *Values) Build(table, id schema.StorageID) (more bool, err error) {
	x.building.Lock()
	defer x.building.Unlock()
	def, ok := x.definition(table, id)
	if !ok {
		return false, nil
	}
	s, _ := x.state(table, id)
	if s.state == built {
		return false, nil
	}
	// Checked before rows are read: a full disk or a failed engine would refuse the entries of the step.
	if err := x.host.Writable(); err != nil {
		return true, err
	}
	if s, err = x.fence(table, s); err != nil {
		return true, err
	}
	next := s
	// Entries and position are in one batch, so a position on disk never is past rows without entries. The batch need
	// not be synced: a crash that loses it loses the position as well, and the step is done again.
	err = x.host.Write(false, func(d storage.Derived) error {
		entries := x.scratch.Get().(*scratch)
		defer x.scratch.Put(entries)
		of := []Definition{def}
		next.position, err = x.host.Rows(table, s.position, x.rows, func(e *storage.Entered) {
			next.rows++
			next.bytes += int64(len(e.Key.Bytes) + len(e.Clustering) + len(e.Value))
			entries.enter(d, of, e, false)
		})
		if err == nil && next.position != nil {
			d.MarkWith(id, next.mark(table))
		}
		return err
	})
	if err != nil {
		return true, err
	}
	return x.built(table, s, next)
}

// fence makes sure that every change without entries of the index is committed before the first step. It waits for the
// commits that are in progress, once for each build.
func (x *Values) fence(table schema.StorageID, s indexState) (indexState, error) {
	// The state is read while deciding is held, because an ingestion may change it.
	x.deciding.acquire()
	s, _ = x.state(table, s.id)
	// The build of an unknown or void index begins at the first row: rows without entries may have been added before
	// any stored position.
	if s.state != unbuilt {
		s.state, s.position, s.fenced = unbuilt, nil, false
	}
	x.put(table, s)
	x.deciding.release()
	if s.fenced {
		return s, nil
	}
	// The barrier waits for commits, and these acquire deciding in Enter, so deciding must not be held here.
	if err := x.host.Barrier(); err != nil {
		return s, err
	}
	x.deciding.acquire()
	defer x.deciding.release()
	now, _ := x.state(table, s.id)
	now.fenced = true
	x.put(table, now)
	return now, nil
}

// built ends a step that began in the state s. If voids has changed, rows were added without entries since the step
// began.
func (x *Values) built(table schema.StorageID, s, next indexState) (more bool, err error) {
	x.deciding.acquire()
	defer x.deciding.release()
	now, known := x.state(table, s.id)
	switch {
	case !known: // the table was dropped
		return false, nil
	case now.voids != s.voids || now.state != unbuilt: // the next step begins again
		return true, nil
	case next.position != nil:
		now.position, now.rows, now.bytes = next.position, next.rows, next.bytes
		x.put(table, now)
		return true, nil
	}
	now.state, now.position, now.rows, now.bytes = built, nil, next.rows, next.bytes
	// The mark is synced: searches rely on the index as soon as its state is built, so the mark must survive a crash.
	if err := x.host.Write(true, func(d storage.Derived) error {
		d.MarkWith(s.id,
			now.mark(table))
		return nil
	}); err != nil {
		return true, err
	}
	x.put(table, now)
	return false, nil
}

// Work is a pending task for an index. The caller passes its fields to the named method until the task is done. It is
// a snapshot; the state may have changed when it is used.
type Work struct {
	Table, Index schema.StorageID
	// Drop means that DropIndex must be called; otherwise Build.
	Drop bool
	// begun means that a step of the build has been executed, and another one is needed.
	begun bool
}

// Pending returns the pending tasks: to build indexes that are not built, and to drop the entries of indexes that are
// no longer defined. The caller must know the whole schema.
func (x *Values) Pending(tables []schema.StorageID) (out []Work) {
	for _, table := range tables {
		for _, d := range x.definitions(table) {
			if s, _ := x.state(table, d.ID); s.state != built {
				out = append(out, Work{Table: table, Index: d.ID, begun: s.position != nil})
			}
		}
	}
	// An index with a mark and without a definition was dropped, or its table's definition changed.
	for table, states := range x.all() {
		for _, s := range states {
			if _, ok := x.definition(table, s.id); !ok {
				out = append(out, Work{Table: table, Index: s.id, Drop: true})
			}
		}
	}
	// The order of identifiers is the order of creation, and the same after each start. What has not begun comes first:
	// one step is enough for a table that was just created or truncated, and it need not wait for a large one.
	slices.SortFunc(out, func(a, b Work) int {
		if a.begun != b.begun {
			return map[bool]int{false: -1, true: 1}[a.begun]
		}
		return int(a.Index) - int(b.Index)
	})
	return out
}

// DropIndex removes the entries and the mark of an index that is no longer defined. It does nothing for an index that
// is defined again or unknown. It costs one range deletion, whatever the number of entries.
func (x *Values) DropIndex(table, id schema.StorageID) error {
	x.building.Lock()
	defer x.building.Unlock()
	if _, defined := x.definition(table, id); defined {
		return nil
	}
	if err := x.host.Barrier(); err != nil { // no commit with its entries is under way
		return err
	}
	x.deciding.acquire()
	defer x.deciding.release()
	if _, known := x.state(table, id); !known {
		return nil
	}
	err := x.host.Write(true, func(d storage.Derived) error {
		// The identifier is the prefix of the entries, so one range deletion covers them all.
		d.DeleteRange(table, appendIndex(nil, id), appendIndex(nil, id+1))
		d.Unmark(id)
		return nil
	})
	if err == nil {
		x.put(table, indexState{id: id})
	}
	return err
}
