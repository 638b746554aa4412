package node

import (
	"math"
	"sync"
	"time"

	"cqld/query/system"
	"cqld/ring"
	"cqld/schema"
	"cqld/search"
	"cqld/storage/estimate"
	"cqld/storage/index"
)

// estimateAge is how long an estimate of a table is used before it is computed again.
const estimateAge = 20 * time.Second

// estimates caches the newest estimates of this node's tables, which are computed when they are read. The zero value
// with n set is ready for use.
type estimates struct {
	n  *Node
	mu struct {
		sync.Mutex
		tables map[schema.StorageID]estimated
	}
}

type estimated struct {
	partitions estimate.Partitions
	at         time.Duration // monotonic
	epoch      uint64        // of the ring whose ranges were sampled
	share      float64       // the part of all tokens that was sampled
}

// tableEstimate implements query.Options.Estimate: it extrapolates this node's estimate to the ranges that it does not
// replicate. ok is false if the node replicates none.
func (e *estimates) tableEstimate(t *schema.Table) (partitions, meanBytes int64, ok bool) {
	last := e.newest(t)
	if last.share == 0 {
		return 0, 0, false
	}
	return int64(math.Round(float64(last.partitions.All()) / last.share)), last.partitions.MeanBytes, true
}

// of estimates the partitions of a table in the ranges that this node replicates. A table that cannot be read because
// its file is corrupt counts as empty: the storage engine reports the corruption separately.
func (e *estimates) of(t *schema.Table) estimate.Partitions { return e.newest(t).partitions }

// newest returns the estimate of a table. It computes a new one if the ring has changed or the estimate is too old.
func (e *estimates) newest(t *schema.Table) estimated {
	m := e.n.cluster.Metadata()
	now := e.n.clock.Monotonic()
	e.mu.Lock()
	last, ok := e.mu.tables[t.StorageID]
	e.mu.Unlock()
	if !ok || now-last.at > estimateAge || last.epoch != m.Topology.Epoch() {
		last = e.measure(t, m.Topology, now)
		e.mu.Lock()
		if e.mu.tables == nil {
			e.mu.tables = map[schema.StorageID]estimated{}
		}
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

// shown returns the estimate in the form of system.size_estimates and system.table_estimates.
func (e *estimates) shown(t *schema.Table) system.Estimate {
	p := e.of(t)
	return system.Estimate{MeanBytes: p.MeanBytes, Partitions: func(r ring.Range) int64 { return p.In(r) }}
}

func (e *estimates) measure(t *schema.Table, topology *ring.Topology, now time.Duration) estimated {
	held := []ring.Range{}
	for _, p := range topology.Placement(t.Replication).Ranges(ring.FullRange()) {
		if p.Replicas.Contains(e.n.cluster.Self()) {
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
	p, err := e.n.engine.EstimatePartitions(t.StorageID, held)
	if err != nil {
		e.n.log.Warn("partition estimate failed", "keyspace", t.Keyspace, "table", t.Name, "err", err)
		return out
	}
	out.partitions = p
	return out
}

// indexEntries implements query.Options.IndexEntries with the entries that this node has.
func (n *Node) indexEntries(req *search.Request, most int) (entries int, ok bool) {
	entries, err := n.instance.Values.Count(&index.Query{Table: req.Table.StorageID, Index: req.Index,
		Terms: req.Terms, Key: req.Key,
		Tokens: req.Tokens}, most)
	return entries, err == nil
}
