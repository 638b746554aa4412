package node

import (
	"time"

	"cqld/internal/env"
	"cqld/ring"
	"cqld/schema"
)

// droppedEvery is how often a node looks for dropped tables whose grace has ended.
const droppedEvery = 30 * time.Second

// droppedTables are the tables that were dropped and can be restored until their grace ends (ADR 50). The schema has
// them; this node determines how long the grace is, and proposes its end.
type droppedTables struct{ node *Node }

// grace returns how long a table that is dropped now can be restored. While the disk is nearly full, it is removed at
// once: the statement may be what gives the disk space again.
func (d droppedTables) grace() time.Duration {
	if d.node.engine.DiskFull() {
		return 0
	}
	return d.node.opts.DropGrace
}

// watch removes dropped tables from the schema until the node stops: when their grace has ended, and while the disk of
// this node is nearly full.
func (d droppedTables) watch() {
	for env.Pause(d.node.clock, droppedEvery, nil, d.node.stopping) {
		d.purge()
	}
}

// purge proposes the removal of the dropped tables that need not be kept. Another node may propose the same, and the
// schema may be an old one: the change names the drop that it concerns.
func (d droppedTables) purge() {
	tables := d.purgeable(d.node.clock.Now().Unix())
	if len(tables) == 0 {
		return
	}
	// The names may be in use by other tables, so that only the number is logged.
	log := d.node.log.With("tables", len(tables))
	// A failed proposal is repeated after the pause.
	d.node.cluster.StartSchema(&schema.PurgeTables{Tables: tables}, func(err error) {
		if err != nil {
			log.Warn("dropped tables could not be purged", "err", err)
			return
		}
		log.Info("dropped tables purged")
	})
}

// purgeable returns the dropped tables that this node removes, with the ends of their grace. now is in seconds.
func (d droppedTables) purgeable(now int64) map[schema.StorageID]int64 {
	tables := map[schema.StorageID]int64{}
	full, first := d.node.engine.DiskFull(), d.first()
	for _, t := range d.node.cluster.Metadata().Schema.Retained() {
		purge := first && now >= t.Retention.Until
		// Only tables with rows here: the removal of others would not help the disk.
		if !purge && full {
			empty, err := d.node.engine.EmptyRange(t.StorageID, ring.FullRange())
			purge = err == nil && !empty
		}
		if purge {
			tables[t.StorageID] = t.Retention.Until
		}
	}
	return tables
}

// first reports whether this node has the lowest number of the live members, and does what one node should do. Several
// nodes may consider themselves the first.
func (d droppedTables) first() bool {
	c := d.node.cluster
	// As this node sees them: a node that considers itself alone purges, too, which needs a majority of the voters.
	for _, m := range c.Metadata().Topology.Nodes() {
		if m.ID < c.Self() && c.Alive(m.ID) {
			return false
		}
	}
	return true
}
