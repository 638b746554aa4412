package rebalance

import (
	"slices"

	"cqld/ring"
)

// GainedData describes ranges of a keyspace that a node gained by changes of its replication. Such changes move no
// data.
type GainedData struct {
	Keyspace string
	Changed  uint64 // the epoch of the last change of the replication or of the ring
	Since    int64  // the time of the change, in seconds; a repair that began later has copied the data
}

// scheduleGainedCheck schedules a check whether the ranges that this node gained by changes of replication were
// repaired. The check reports them to the metadata log. Until then, other nodes keep data of former replications after
// further changes.
func (d *Drops) scheduleGainedCheck() {
	if d.o.Gained != nil && len(d.o.Gained()) > 0 {
		d.deliver(&dropEvent{kind: dropGained})
	}
}

// checkGained is the check. It runs in a worker, because a search of the history takes time for many ranges.
func (d *Drops) checkGained() {
	ev := &dropEvent{kind: dropChecked}
	for _, g := range d.o.Gained() {
		if d.hasRepaired(g) {
			ev.repaired = append(ev.repaired, g)
		}
	}
	d.deliver(ev)
}

// hasRepaired reports whether all ranges of a keyspace that this node holds were repaired after its last change.
func (d *Drops) hasRepaired(g GainedData) bool {
	k := d.o.View.Schema().StoredKeyspace(g.Keyspace)
	if k == nil {
		return false
	}
	// At least 1: a repair that gave up its purge is recorded with the time 0.
	since, self := max(g.Since, 1), d.o.View.Self()
	for _, piece := range d.o.View.Topology().Placement(k.Replication).Ranges(ring.FullRange()) {
		// Only the ranges of this node: each node reports its own.
		if !slices.Contains(piece.Replicas.Natural, self) {
			continue
		}
		for _, id := range tablesOf(k) {
			if d.o.History.Since(id, piece.Range) < since {
				return false
			}
		}
	}
	return true
}
