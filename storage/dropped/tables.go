// Package dropped is a set of dropped tables that readers search without a lock.
//
// It does not remove tables or refuse requests: package storage does. A set only grows, because identifiers of tables
// are never reused.
package dropped

import (
	"sync/atomic"

	"cqld/schema"
)

// Tables is a set of tables. Readers search it without a lock while one writer, which the caller serializes, adds
// tables. It is a hash table with linear probing, so that adding a table takes constant time on average. The zero value
// is empty.
type Tables struct {
	// slots has a power of two elements, of which at most half are used; nil means none. An element is 0, or the id of
	// a table plus 1, which never changes afterwards.
	slots atomic.Pointer[[]atomic.Uint64]
	n     int // elements in use, for the writer
}

// slotsMin is the number of slots of a new hash table.
const slotsMin = 16

// Empty reports whether no table was dropped.
func (d *Tables) Empty() bool { return d.slots.Load() == nil }

// Contains reports whether a table was dropped. Each read calls it, so it costs only one load while no table was
// dropped.
func (d *Tables) Contains(id schema.StorageID) bool {
	slots := d.slots.Load()
	if slots == nil {
		return false
	}
	_, found := slotOf(*slots, id)
	return found
}

// Add adds a table. Readers see the old array or the new one, and each has all tables that were added before.
func (d *Tables) Add(id schema.StorageID) {
	var slots []atomic.Uint64
	if current := d.slots.Load(); current != nil {
		slots = *current
	}
	if 2*(d.n+1) > len(slots) {
		larger := make([]atomic.Uint64, max(2*len(slots), slotsMin))
		for i := range slots {
			if value := slots[i].Load(); value != 0 {
				at, _ := slotOf(larger, schema.StorageID(value-1))
				larger[at].Store(value)
			}
		}
		slots = larger
		d.slots.Store(&larger)
	}
	at, found := slotOf(slots, id)
	if found {
		return
	}
	slots[at].Store(uint64(id) + 1)
	d.n++
}

// slotOf returns the slot of a table, or the free one where it belongs.
func slotOf(slots []atomic.Uint64, id schema.StorageID) (at int, found bool) {
	const multiplier = 0x9E3779B97F4A7C15 // 2^64 / golden ratio: consecutive ids are spread
	mask := uint64(len(slots) - 1)
	for i := uint64(id) * multiplier >> 32 & mask; ; i = (i + 1) & mask {
		switch slots[i].Load() {
		case 0:
			return int(i), false
		case uint64(id) + 1:
			return int(i), true
		}
	}
}
