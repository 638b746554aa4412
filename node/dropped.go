package node

import (
	"slices"
	"time"

	"cqld/internal/env"
	"cqld/ring"
	"cqld/schema"
)

// droppedEvery is how often a node looks for dropped tables whose grace has ended.
const droppedEvery = 30 * time.Second

// droppedTables are the tables and keyspaces that were dropped and can be restored until their grace ends (ADR 50). The
// schema has them; this node determines how long the grace is, and proposes its end.
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

// purge proposes the removal of the dropped tables and keyspaces that need not be kept. Another node may propose the
// same, and the schema may be an old one: the change names the drop that it concerns.
func (d droppedTables) purge() {
	now := d.node.clock.Now().Unix()
	// The names may be in use by other tables, so that only the number is logged.
	if tables := d.purgeable(now); len(tables) > 0 {
		d.propose(&schema.PurgeTables{Tables: tables}, "dropped tables", len(tables))
	}
	// Two changes: one that fails does not hold up the other.
	if keyspaces := d.purgeableKeyspaces(now); len(keyspaces) > 0 {
		d.propose(&schema.PurgeKeyspaces{Keyspaces: keyspaces}, "dropped keyspaces", len(keyspaces))
	}
}

// propose proposes a purge. It does not wait for the outcome: the next look at the schema shows it. A failed proposal
// is repeated after the pause.
func (d droppedTables) propose(c schema.Change, what string, count int) {
	log := d.node.log.With("what", what, "count", count)
	d.node.cluster.StartSchema(c, func(err error) {
		if err != nil {
			log.Warn("purge failed", "err", err)
			return
		}
		log.Info("purged")
	})
}

// purgeable returns the dropped tables that this node removes, with the ends of their grace. now is in seconds.
func (d droppedTables) purgeable(now int64) map[schema.StorageID]int64 {
	tables := map[schema.StorageID]int64{}
	full, first := d.node.engine.DiskFull(), d.first()
	for _, t := range d.node.cluster.Metadata().Schema.Retained() {
		if first && now >= t.Retention.Until || full && d.hasRows(t) {
			tables[t.StorageID] = t.Retention.Until
		}
	}
	return tables
}

// purgeableKeyspaces returns the dropped keyspaces that this node removes, by hidden name, with the ends of their
// grace. now is in seconds.
func (d droppedTables) purgeableKeyspaces(now int64) map[string]int64 {
	keyspaces := map[string]int64{}
	full, first := d.node.engine.DiskFull(), d.first()
	for _, k := range d.node.cluster.Metadata().Schema.DroppedKeyspaces() {
		if first && now >= k.Dropped.Until || full && slices.ContainsFunc(k.StoredTables(), d.hasRows) {
			keyspaces[k.Name] = k.Dropped.Until
		}
	}
	return keyspaces
}

// hasRows reports whether this node has rows of a table. The removal of a table without rows here would not help the
// disk of this node.
func (d droppedTables) hasRows(t *schema.Table) bool {
	empty, err := d.node.engine.EmptyRange(t.StorageID, ring.FullRange())
	return err == nil && !empty
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
