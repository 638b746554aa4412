package simulation

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/node/assembly"
	"cqld/ring"
	"cqld/schema"
	"cqld/simulation/kernel"
	"cqld/simulation/meetings"
	"cqld/simulation/pages"
	"cqld/storage"
	"cqld/storage/index"
	"cqld/storage/tableinfo"
	"cqld/view"
)

// snapshot is a copy of a node's storage, with the contents at the time of its creation. It is on the machine's disk
// and is lost when the disk is wiped.
type snapshot struct {
	node *Node
	// addr is the address of the node at that time. Another address means that the machine has another disk.
	addr netip.AddrPort
	dir  string
	// now is the time of the read, in seconds of the node's clock.
	now int64
	// rows contains the bytes of each partition (pages.Dump), by table and key.
	rows map[schema.StorageID]map[string]string
}

// snapshotsMost bounds the snapshots of a run: each is read at the end.
const snapshotsMost = 6

// snapshotNode creates a snapshot of a node's storage. At the end of the run, its contents must equal those of the node
// then. The node continues to write and compact afterwards, which must not change the linked files.
func (v *verifier) snapshotNode(r *kernel.Stream) {
	c := v.c
	n := c.any(r)
	if !n.process.serves() || n.process.fatal.Load() != nil || n.faults.Any() || n.damaged ||
		len(v.snapshots) == snapshotsMost {
		return
	}
	s := &snapshot{node: n, addr: n.addr, dir: fmt.Sprint("snapshot-", c.order.ticks, "-", len(v.snapshots)),
		now: clock{n.process}.Now().Unix()}
	var err error
	// Contents and checkpoint are taken in one event: no write comes between them.
	if s.rows, err = v.contents(n.process.engine, s.now); err != nil {
		c.fail("node %d cannot read its tables: %v", n.id, err)
		return
	}
	if err := n.process.engine.Checkpoint(s.dir); err != nil {
		c.fail("node %d cannot make a snapshot: %v", n.id, err)
		return
	}
	c.count("snapshots made")
	// A snapshot is complete when Checkpoint returns; it coincides with what begins shortly afterwards.
	c.meetings.Begin(meetings.Snapshot, meetings.Lingers)
	v.snapshots = append(v.snapshots, s)
}

// contents returns storage's contents of the workloads' tables. It reads every table completely.
func (v *verifier) contents(e *storage.Engine, now int64) (map[schema.StorageID]map[string]string, error) {
	all := map[schema.StorageID]map[string]string{}
	for _, table := range v.c.metadata().Schema.Keyspace(keyspace).StoredTables() {
		// Dump sorts by node; there is one only.
		into := map[string]map[ring.NodeID][]byte{}
		if err := pages.Dump(e, 0, table, now, into); err != nil {
			return nil, err
		}
		rows := map[string]string{}
		for key, page := range into {
			rows[key] = string(page[0])
		}
		all[table.StorageID] = rows
	}
	return all, nil
}

// checkSnapshots reads the snapshots of the machines that still have the same disk.
func (v *verifier) checkSnapshots() {
	for _, s := range v.snapshots {
		if s.node.process == nil || s.node.damaged || s.node.addr != s.addr {
			continue
		}
		if err := v.checkSnapshot(s); err != nil {
			v.c.fail("the snapshot %s of node %d cannot be read: %v", s.dir, s.node.id, err)
		}
	}
}

// checkSnapshot opens a snapshot as a restore would, and compares its rows with the rows that the node had. It returns
// an error if the snapshot cannot be opened or read; different rows are recorded as a violation.
func (v *verifier) checkSnapshot(s *snapshot) error {
	l := s.node.process
	// The clone has synced data only, as after a power cut: a snapshot must be durable when Checkpoint returns.
	disk := s.node.disk.CrashClone(vfs.CrashCloneCfg{})
	if _, err := disk.Stat(s.dir); err != nil {
		return err
	}
	metadata := l.cluster.Metadata()
	options := storage.Options{Dir: s.dir, FS: s.node.encrypted(disk), Clock: clock{l}, Inline: true,
		CacheBytes: 1 << 20, MemTableBytes: 1 << 20}
	options.Table = func(id schema.StorageID) tableinfo.Info {
		return assembly.TableInfo(metadata, true, id, l.instance.Repaired)
	}
	// The store has the keys of indexes, so it needs the same maintainers as the engine of a node.
	index.Maintain(&options, index.NewPartitions(func(id schema.StorageID) bool {
		return assembly.Ordered(metadata,
			id)
	}))
	index.MaintainValues(&options, index.NewValues(index.NewCatalog(metadata.Schema.TableByStorage,
		view.Definitions).Of))
	e, err := storage.Open(options)
	if err != nil {
		return err
	}
	// With the time of the snapshot: what has expired since is still counted.
	found, err := v.contents(e, s.now)
	if err != nil {
		return errors.Join(err, e.Close())
	}
	for _, id := range slices.Sorted(maps.Keys(s.rows)) {
		if v.c.metadata().Schema.TableByStorage(id) == nil {
			// The table was dropped since.
			continue
		}
		if !maps.Equal(s.rows[id], found[id]) {
			v.c.fail("the snapshot %s of node %d has other rows of table %d than the node had: %d partitions, not %d",
				s.dir, s.node.id, id, len(found[id]), len(s.rows[id]))
		}
	}
	return e.Close()
}
