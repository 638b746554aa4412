package storage

import (
	"encoding/binary"
	"maps"
	"sync"
	"sync/atomic"

	"cqld/schema"
)

// headerFlags knows which tables have, or had, a header in any partition: a read of the others saves
// a seek. Each flag is a key of the engine's own, in the batch that brings the table's first header.
//
// A flag is raised before its batch is committed and looked at after an iterator was made, so a
// reader that finds none sees no header either.
type headerFlags struct {
	states atomic.Pointer[map[schema.StorageID]headerState]
	mu     sync.Mutex // held by who replaces states
}

type headerState uint8

const (
	headerRaised    headerState = iota + 1 // batches must still set it
	headerPersisted                        // it is committed
)

// has says whether partitions of the table may have headers.
func (f *headerFlags) has(id schema.StorageID) bool { return f.state(id) != 0 }

func (f *headerFlags) state(id schema.StorageID) headerState {
	if p := f.states.Load(); p != nil {
		return (*p)[id]
	}
	return 0
}

// raise notes that a header comes; true when the batch it is in must set the flag too.
func (f *headerFlags) raise(id schema.StorageID) bool {
	switch f.state(id) {
	case headerPersisted:
		return false
	case 0:
		f.put(id, headerRaised)
	}
	return true
}

// persisted notes that the flags of these tables are committed.
func (f *headerFlags) persisted(ids []schema.StorageID) {
	for _, id := range ids {
		if f.state(id) != headerPersisted {
			f.put(id, headerPersisted)
		}
	}
}

func (f *headerFlags) put(id schema.StorageID, s headerState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := map[schema.StorageID]headerState{}
	if p := f.states.Load(); p != nil {
		next = maps.Clone(*p)
	}
	next[id] = max(s, next[id])
	f.states.Store(&next)
}

// headerFlagKey is the engine's own key for the flag of a table.
func headerFlagKey(id schema.StorageID) []byte {
	return binary.BigEndian.AppendUint32(ownKey(ownHeaderFlag), uint32(id))
}

// loadHeaderFlags reads the flags when the engine is opened.
func (e *Engine) loadHeaderFlags() error {
	prefix := ownKey(ownHeaderFlag)
	return e.scan(prefix, func(key, _ []byte) error {
		if len(key) != len(prefix)+4 {
			return badKey(key)
		}
		e.headers.put(schema.StorageID(binary.BigEndian.Uint32(key[len(prefix):])), headerPersisted)
		return nil
	})
}
