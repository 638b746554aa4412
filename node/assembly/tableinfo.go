package assembly

import (
	"cqld/cluster"
	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
)

// TableInfo is what storage must know of a table. m is nil before the cluster is open; repaired is nil before it is
// known what was repaired. Metadata that are not confirmed may be those of an earlier ring or catalog: until then nothing is
// purged, and every write waits for its fsync.
func TableInfo(m *cluster.Metadata, confirmed bool, id schema.StorageID, repaired *repair.History) storage.TableInfo {
	if m == nil || !confirmed {
		info := storage.TableInfo{Exists: m == nil || !m.Schema.Dropped(id), GC: storage.GCDisabled, AlwaysSync: true}
		if m != nil {
			info.Name = m.Schema.NameOf(id)
		}
		return info
	}
	t := m.Schema.TableByStorage(id)
	if t == nil { // dropped, or not heard of yet
		return storage.TableInfo{Exists: id >= schema.FirstStorageID && !m.Schema.Dropped(id), GC: storage.GCDisabled, AlwaysSync: true}
	}
	info := storage.TableInfo{Name: t.Keyspace + "." + t.Name, Exists: true, GCGraceSeconds: int64(t.Options.GCGraceSeconds), GC: gcMode(t.Options.TombstoneGC),
		AlwaysSync: t.IsCounter()} // a sum that goes back would lose what others were told
	if t.Replication.Total() == 1 || len(m.Topology.Nodes()) == 1 {
		info.GC = max(info.GC, storage.GCTimeout) // one copy has nothing to be repaired from
	}
	if info.GC == storage.GCRepair && repaired != nil {
		info.RepairedBefore = repaired.Of(id)
	}
	if t.Replication.Class == ring.Local {
		// Promises of Paxos, batches to be replayed: a crash must not take them back, and no other node
		// has them to repair from.
		info.AlwaysSync, info.GC = true, storage.GCTimeout
	}
	return info
}

func gcMode(option string) storage.GCMode {
	switch option {
	case "timeout":
		return storage.GCTimeout
	case "immediate":
		return storage.GCImmediate
	case "disabled":
		return storage.GCDisabled
	}
	return storage.GCRepair
}

// Ordered says which tables storage keeps in the order of their partition keys, too. m is nil before the cluster is
// open.
func Ordered(m *cluster.Metadata, id schema.StorageID) bool {
	if m == nil {
		return false
	}
	t := m.Schema.TableByStorage(id)
	return t != nil && t.OrderedPartitions()
}
