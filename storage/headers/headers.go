// Package headers knows which tables have partitions with headers, so that reads of other tables save a seek.
package headers

import (
	"maps"
	"sync"
	"sync/atomic"

	"cqld/internal/invariant"
	"cqld/schema"
)

// Flags records which tables have, or had, a header in any partition; reads of other tables save a seek. Each
// flag is one of the engine's own keys, written in the batch with the table's first header.
//
// A flag is raised before its batch is committed, and checked after an iterator was created. A reader that finds no
// flag therefore sees no header either.
type Flags struct {
	states atomic.Pointer[map[schema.StorageID]state]
	mu     sync.Mutex // held by goroutines that replace states
}

// state is the state of a table's flag; 0 means that it was never raised.
type state uint8

const (
	raised    state = iota + 1 // batches must still set the flag
	persisted                  // the flag is committed
)

// Has reports whether partitions of the table may have headers.
func (f *Flags) Has(id schema.StorageID) bool { return f.stateOf(id) != 0 }

// stateOf reads the map without the lock, because the map is replaced and never modified.
func (f *Flags) stateOf(id schema.StorageID) state {
	if p := f.states.Load(); p != nil {
		return (*p)[id]
	}
	return 0
}

// Raise records that a header will be written. It returns true if the header's batch must set the flag, too.
func (f *Flags) Raise(id schema.StorageID) bool {
	switch f.stateOf(id) {
	case persisted:
		return false
	case 0:
		f.put(id, raised)
	}
	return true
}

// Persisted records that the flags of these tables are committed.
func (f *Flags) Persisted(ids []schema.StorageID) {
	for _, id := range ids {
		// A reader that saw no flag has skipped the header: the flag must have been raised before the commit.
		invariant.Check(f.stateOf(id) != 0, "headers: the flag of a table was committed that was not raised")
		if f.stateOf(id) != persisted {
			f.put(id, persisted)
		}
	}
}

func (f *Flags) put(id schema.StorageID, s state) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := map[schema.StorageID]state{}
	if p := f.states.Load(); p != nil {
		next = maps.Clone(*p)
	}
	next[id] = max(s, next[id])
	f.states.Store(&next)
}

// Load records that the flag of a table was found on disk. It is called when the engine is opened.
func (f *Flags) Load(id schema.StorageID) { f.put(id, persisted) }
