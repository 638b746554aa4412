package assembly

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/cluster"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/ring/load"
	"cqld/schema"
)

// The pace at which the bytes of ranges are measured: at least measureEvery apart, and at most for one part in
// measureShare of the time, unless that were more than measureMost apart. With 64 ranges and 50 tables, a measurement
// looks 3,200 times at the bounds of files, which takes some tens of milliseconds. On a machine whose processors are
// busy with other work, it takes far longer than it works, and measureMost bounds the age of the bytes.
const (
	measureEvery = 30 * time.Second
	measureShare = 500
	measureMost  = 5 * time.Minute
)

// SizeStore measures the bytes on disk of ranges.
type SizeStore interface {
	// SizeOf estimates the bytes on disk of a range of a table, without memtables.
	SizeOf(id schema.StorageID, tokens ring.Range) (int64, error)
}

// Loads measures the load of this node's ranges and exchanges it with the other nodes. It follows the metadata: the
// ranges are the node's in the ring that it has applied. All methods are safe for concurrent use.
//
//	requests ─▶ replica.Local ─▶ Meter ◀─ bytes of ranges ◀─ measure, in the background
//	heartbeats ◀─ Beat ─ Reports ◀─ Receive ◀─ heartbeats of other nodes
type Loads struct {
	Meter   *load.Meter
	Reports *load.Reports

	clock  env.Clock
	run    func(func())
	disk   func() (free, total int64) // nil: unknown
	closed atomic.Bool

	mu      sync.Mutex
	cluster *cluster.Cluster // nil until the parts exist
	store   SizeStore
	// What the meter follows: changes of other metadata do not concern it.
	topology     *ring.Topology
	self         ring.NodeID
	replications []ring.Replication
	measuring    bool
	due          time.Duration // when the bytes are measured next; monotonic
}

// newLoads returns the load of a node that has no ring yet.
func newLoads(o *Opening) *Loads {
	clock := o.Cluster.Clock
	m := load.New(load.Options{Clock: clock, CPU: o.CPU})
	return &Loads{Meter: m, Reports: load.NewReports(m, clock), clock: clock, run: o.Parts.Run, disk: o.Disk}
}

// open begins to follow the metadata of c.
func (l *Loads) open(c *cluster.Cluster, store SizeStore) {
	l.mu.Lock()
	l.cluster, l.store = c, store
	l.mu.Unlock()
	l.follow()
}

// follow makes the meter follow the ring and the replications of the newest metadata. It is called after each change of
// the metadata, and when the node has become a member.
func (l *Loads) follow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cluster == nil {
		return // the cluster loads its last snapshot
	}
	m, self := l.cluster.Metadata(), l.cluster.Self()
	all := replications(m.Schema)
	if m.Topology == l.topology && self == l.self && slices.EqualFunc(all, l.replications, ring.Replication.Equal) {
		return
	}
	l.topology, l.self, l.replications = m.Topology, self, all
	var placements []*ring.Placement
	for _, r := range all {
		placements = append(placements, m.Topology.Placement(r))
	}
	bounds := m.Topology.Bounds()
	l.Meter.SetRing(bounds, func(i int) bool {
		return slices.ContainsFunc(placements, func(p *ring.Placement) bool {
			return p.Replicas(bounds[i]).Contains(self)
		})
	})
	l.Reports.Retain(m.Topology.Nodes())
	l.due = 0
}

// replications returns the replications of all keyspaces with data, each once. Keyspaces that are local to each node
// have none.
func replications(s *schema.Schema) (all []ring.Replication) {
	for _, name := range s.StoredKeyspaceNames() {
		r := s.StoredKeyspace(name).Replication
		if r.Class != ring.Local && !slices.ContainsFunc(all, r.Equal) {
			all = append(all, r)
		}
	}
	return all
}

// Beat implements cluster.LoadExchange. It also begins a measurement of the bytes if one is due.
func (l *Loads) Beat() []byte {
	l.mu.Lock()
	begin := l.cluster != nil && !l.measuring && !l.closed.Load() && l.clock.Monotonic() >= l.due
	if begin {
		l.measuring = true
	}
	l.mu.Unlock()
	if begin {
		l.run(l.measure)
	}
	return l.Reports.Beat()
}

// Last implements cluster.LoadExchange.
func (l *Loads) Last() []byte { return l.Reports.Last() }

// Receive implements cluster.LoadExchange.
func (l *Loads) Receive(from ring.NodeID, report []byte) { l.Reports.Receive(from, report) }

// Close ends a measurement in progress soon, and begins none later.
func (l *Loads) Close() { l.closed.Store(true) }

// measure measures the file system and the bytes of all ranges that this node holds.
func (l *Loads) measure() {
	l.mu.Lock()
	topology, catalog, self, store := l.topology, l.cluster.Metadata().Schema, l.self, l.store
	l.mu.Unlock()
	began := l.clock.Monotonic()
	if l.disk != nil {
		l.Meter.SetDisk(l.disk())
	}
	bytes := map[ring.Range]int64{}
	held := l.Meter.Held()
	for _, r := range held {
		bytes[r] = 0
	}
	complete := l.measureTables(store, catalog, bytes, func(r ring.Replication) []ring.Range {
		p := topology.Placement(r)
		return slices.DeleteFunc(slices.Clone(held), func(x ring.Range) bool {
			return !p.Replicas(x.End).Contains(self)
		})
	})
	// After an error, the last measurement stays.
	if complete {
		l.Meter.SetBytes(bytes)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Monotonic()
	l.measuring = false
	// A change of the ring has made another measurement due.
	if l.topology == topology {
		l.due = now + min(max(measureEvery, measureShare*(now-began)), measureMost)
	}
}

// measureTables adds the bytes of all tables in the ranges that held returns for their replication. It returns false if
// storage has failed, or Close was called.
func (l *Loads) measureTables(store SizeStore, catalog *schema.Schema, bytes map[ring.Range]int64,
	held func(ring.Replication) []ring.Range) bool {
	for _, name := range catalog.StoredKeyspaceNames() {
		k := catalog.StoredKeyspace(name)
		if k.Replication.Class == ring.Local {
			continue
		}
		ranges := held(k.Replication)
		// Dropped tables that can be restored are included: they move with the range.
		for _, t := range k.StoredTables() {
			whole, err := store.SizeOf(t.StorageID, ring.FullRange())
			if err != nil || l.closed.Load() {
				return false
			}
			if whole == 0 {
				continue
			}
			for _, r := range ranges {
				n, err := store.SizeOf(t.StorageID, r)
				if err != nil || l.closed.Load() {
					return false
				}
				bytes[r] += n
			}
		}
	}
	return true
}
