package storage

import (
	"encoding/binary"
	"maps"
	"sync"
	"sync/atomic"

	"cqld/schema"
)

// headerFlags records which tables have, or had, a header in any partition; reads of other tables save a seek. Each
// flag is one of the engine's own keys, written in the batch with the table's first header.
//
// A flag is raised before its batch is committed, and checked after an iterator was created. A reader that finds no
// flag therefore sees no header either.
type headerFlags struct {
	states atomic.Pointer[map[schema.StorageID]headerState]
	mu     sync.Mutex // held by goroutines that replace states
}

type headerState uint8

const (
	headerRaised    headerState = iota + 1 // batches must still set the flag
	headerPersisted                        // the flag is committed
)

// has reports whether partitions of the table may have headers.
func (f *headerFlags) has(id schema.StorageID) bool { return f.state(id) != 0 }

func (f *headerFlags) state(id schema.StorageID) headerState {
	if p := f.states.Load(); p != nil {
		return (*p)[id]
	}
	return 0
}

// raise records that a header will be written. It returns true if the header's batch must set the flag, too.
func (f *headerFlags) raise(id schema.StorageID) bool {
	switch f.state(id) {
	case headerPersisted:
		return false
	case 0:
		f.put(id, headerRaised)
	}
	return true
}

// persisted records that the flags of these tables are committed.
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

// headerFlagKey returns the engine's own key for the flag of a table.
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
