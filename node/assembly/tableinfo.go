package assembly

import (
	"cqld/cluster/metadata"
	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/tableinfo"
)

// TableInfo returns what storage needs to know about a table. m is nil before the cluster is open; repaired is nil
// before the repair history is loaded. Metadata that are not confirmed may describe an earlier ring or catalog: until
// they are confirmed, nothing is purged, and every write waits for its fsync. It returns a copy and never fails: an
// unknown table gets the most careful settings.
func TableInfo(m *metadata.Metadata, confirmed bool, id schema.StorageID, repaired *repair.History) tableinfo.Info {
	if m == nil || !confirmed {
		// Unconfirmed metadata may already say that the table was dropped.
		info := tableinfo.Info{Exists: m == nil || !m.Schema.Dropped(id), GC: tableinfo.GCDisabled, AlwaysSync: true}
		if m != nil {
			info.Of = m.Schema.TableByStorage(id)
		}
		return info
	}
	t := m.Schema.TableByStorage(id)
	if t == nil { // dropped, or not known yet
		// A table that is not known yet exists for storage: a coordinator with newer metadata may write to it already.
		return tableinfo.Info{Exists: id >= schema.FirstStorageID && !m.Schema.Dropped(id), GC: tableinfo.GCDisabled,
			AlwaysSync: true}
	}
	info := tableinfo.Info{Of: t, Exists: true, GCGraceSeconds: int64(t.Options.GCGraceSeconds),
		GC:         gcMode(t.Options.TombstoneGC),
		AlwaysSync: t.IsCounter()} // a sum must not lose increments that other replicas have seen
	if t.Replication.Total() == 1 || len(m.Topology.Nodes()) == 1 {
		info.GC = max(info.GC, tableinfo.GCTimeout) // a single replica cannot be repaired
	}
	if info.GC == tableinfo.GCRepair && repaired != nil {
		info.RepairedBefore = repaired.Of(id)
	}
	if t.Replication.Class == ring.Local {
		// Paxos promises and logged batches: a crash must not lose them, and they cannot be repaired from another node.
		info.AlwaysSync, info.GC = true, tableinfo.GCTimeout
	}
	return info
}

// gcMode returns the mode of the table's option TombstoneGC. Any other value means repair.
func gcMode(option string) tableinfo.GCMode {
	switch option {
	case "timeout":
		return tableinfo.GCTimeout
	case "immediate":
		return tableinfo.GCImmediate
	case "disabled":
		return tableinfo.GCDisabled
	}
	return tableinfo.GCRepair
}

// Ordered reports whether storage also keeps a table in the order of its partition keys. m is nil before the cluster is
// open.
func Ordered(m *metadata.Metadata, id schema.StorageID) bool {
	if m == nil {
		return false
	}
	t := m.Schema.TableByStorage(id)
	return t != nil && t.OrderedPartitions()
}
