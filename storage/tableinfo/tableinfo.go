// Package tableinfo describes the properties of a table that storage needs: its name for logs, and when its dead data
// may be purged.
package tableinfo

import (
	"strconv"

	"cqld/ring"
	"cqld/schema"
)

// GCMode determines when tombstones and expired data older than gc_grace may be purged: the table option
// tombstone_gc.
type GCMode uint8

// The modes.
const (
	// GCRepair purges only data that a repair has copied to all replicas, according to Info.RepairedBefore.
	GCRepair GCMode = iota
	// GCTimeout purges data after gc_grace, repaired or not.
	GCTimeout
	// GCImmediate purges data immediately.
	GCImmediate
	// GCDisabled purges nothing.
	GCDisabled
)

// Info contains the properties of a table that the engine needs.
type Info struct {
	Of             *schema.Table // for logs and errors; nil if unknown
	Exists         bool
	GCGraceSeconds int64
	GC             GCMode
	// RepairedBefore returns the time (seconds) until which all replicas of the token are known to have every write,
	// for GCRepair. Nil means that the table was never repaired.
	RepairedBefore func(ring.Token) int64
	// AlwaysSync makes durable writes of this table wait for their fsync in mode SyncPeriodic, too. It is for state
	// that a crash must not undo: Paxos state, hints and the batch log.
	AlwaysSync bool
}

// Name returns the table's name, or its number if that is unknown.
func (t *Info) Name(id schema.StorageID) string {
	if t.Of != nil {
		return t.Of.Keyspace + "." + t.Of.Name
	}
	return "number " + strconv.FormatUint(uint64(id), 10)
}

// GCBefore returns the time (seconds) before which tombstones of the token are purged.
func (t *Info) GCBefore(token ring.Token, now int64) int64 {
	const never = -1 << 62
	switch t.GC {
	case GCTimeout:
		return now - t.GCGraceSeconds
	case GCImmediate:
		return now
	case GCRepair:
		if t.RepairedBefore != nil {
			return min(now-t.GCGraceSeconds, t.RepairedBefore(token))
		}
	}
	return never
}
