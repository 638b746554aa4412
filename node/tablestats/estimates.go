package tablestats

import (
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"cqld/cluster"
	"cqld/internal/env"
	"cqld/query/system"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/estimate"
)

// estimateAge is how long an estimate of a table is used before it is computed again. An estimate reads blocks of the
// table's files. Drivers such as Spark's read system.size_estimates of all tables at once.
const estimateAge = 20 * time.Second

// EstimatesOptions configure NewEstimates. All fields are required.
type EstimatesOptions struct {
	Cluster *cluster.Cluster
	Engine  *storage.Engine
	Clock   env.Clock
	Log     *slog.Logger
}

// NewEstimates returns estimates that are computed when they are first read.
func NewEstimates(o EstimatesOptions) *Estimates {
	e := &Estimates{o: o}
	e.mu.tables = map[schema.StorageID]estimated{}
	return e
}

// Estimates caches the newest estimates of this node's tables, which are computed when they are read. mu is not held
// while an estimate is computed: two readers may compute the same one, and the later result stays.
type Estimates struct {
	o  EstimatesOptions
	mu struct {
		sync.Mutex
		tables map[schema.StorageID]estimated
	}
}

// estimated is one estimate, which does not change.
type estimated struct {
	partitions estimate.Partitions
	at         time.Duration // monotonic
	epoch      uint64        // of the ring whose ranges were sampled
	share      float64       // the part of all tokens that was sampled
}

// OfCluster implements query.Options.Estimate: it extrapolates this node's estimate to the ranges that it does not
// replicate. ok is false if the node replicates none. The partitions are assumed to be spread evenly by the
// partitioner. meanBytes is the size of a partition on disk.
func (e *Estimates) OfCluster(t *schema.Table) (partitions, meanBytes int64, ok bool) {
	last := e.newest(t)
	if last.share == 0 {
		return 0, 0, false
	}
	return int64(math.Round(float64(last.partitions.All()) / last.share)), last.partitions.MeanBytes, true
}

// Of estimates the partitions of a table in the ranges that this node replicates. A table that cannot be read because
// its file is corrupt counts as empty: the storage engine reports the corruption separately.
func (e *Estimates) Of(t *schema.Table) estimate.Partitions { return e.newest(t).partitions }

// newest returns the estimate of a table. It computes a new one if the ring has changed or the estimate is too old. It
// may be stale with respect to writes by estimateAge, never with respect to the ring.
func (e *Estimates) newest(t *schema.Table) estimated {
	m := e.o.Cluster.Metadata()
	now := e.o.Clock.Monotonic()
	e.mu.Lock()
	last, ok := e.mu.tables[t.StorageID]
	e.mu.Unlock()
	if !ok || now-last.at > estimateAge || last.epoch != m.Topology.Epoch() {
		last = e.measure(t, m.Topology, now)
		e.mu.Lock()
		// Dropped tables are removed here, so that no notification of drops is needed.
		for id := range e.mu.tables {
			if m.Schema.TableByStorage(id) == nil {
				delete(e.mu.tables, id)
			}
		}
		e.mu.tables[t.StorageID] = last
		e.mu.Unlock()
	}
	return last
}

// Shown returns the estimate in the form of system.size_estimates and system.table_estimates. Partitions of a range
// that this node does not replicate are 0, as in Cassandra, which lists its primary ranges only.
func (e *Estimates) Shown(t *schema.Table) system.Estimate {
	p := e.Of(t)
	return system.Estimate{MeanBytes: p.MeanBytes, Partitions: func(r ring.Range) int64 { return p.In(r) }}
}

// measure computes an estimate over the ranges that this node replicates. The cost is bounded, see package
// storage/estimate. A failure is logged, and gives an estimate of no partitions.
func (e *Estimates) measure(t *schema.Table, topology *ring.Topology, now time.Duration) estimated {
	held := []ring.Range{}
	for _, p := range topology.Placement(t.Replication).Ranges(ring.FullRange()) {
		if p.Replicas.Contains(e.o.Cluster.Self()) {
			held = append(held, p.Range)
		}
	}
	if t.Replication.Class == ring.Local {
		held = []ring.Range{ring.FullRange()}
	}
	out := estimated{at: now, epoch: topology.Epoch()}
	for _, r := range held {
		out.share += r.Share()
	}
	p, err := e.o.Engine.EstimatePartitions(t.StorageID, held)
	if err != nil {
		e.o.Log.Warn("partition estimate failed", "keyspace", t.Keyspace, "table", t.Name, "err", err)
		return out
	}
	out.partitions = p
	return out
}

// Tables returns the tables whose estimates are cached. The order is random.
func (e *Estimates) Tables() []schema.StorageID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.mu.tables))
}
