package rebalance

import (
	"slices"
	"time"

	"cqld/ring"
)

// GainedData is what a node gained of a keyspace by changes of its replication, which move no data.
type GainedData struct {
	Keyspace string
	Changed  uint64 // the epoch of the last change of the replication or of the ring
	Since    int64  // seconds; a repair that began later has brought it, unless the present replicas could not get it from each other
}

// gainedDelay is how long a look at what was gained waits for more ranges that are repaired.
const gainedDelay = time.Second

// scheduleGainedCheck looks soon whether what this node gained by changes of replication was repaired, and says so in the metadata log.
// Until it has, other nodes keep what they have by former replications after later changes.
func (d *Drops) scheduleGainedCheck() {
	if d.o.Gained == nil || len(d.o.Gained()) == 0 {
		return
	}
	d.mu.Lock()
	begin := !d.mu.looking && !d.mu.closed
	d.mu.looking = d.mu.looking || begin
	d.mu.Unlock()
	if begin {
		d.o.Clock.After(gainedDelay, func() { d.o.Run(d.reportGained) })
	}
}

func (d *Drops) reportGained() {
	var repaired []GainedData
	for _, g := range d.o.Gained() {
		if d.hasRepaired(g) {
			repaired = append(repaired, g)
		}
	}
	d.mu.Lock()
	d.mu.looking = false
	closed := d.mu.closed
	d.mu.Unlock()
	if closed {
		return
	}
	for _, g := range repaired {
		d.o.Metadata.StartRegained(g.Keyspace, g.Changed, func(error) {}) // it is said again after the next repair
	}
}

// hasRepaired says whether all that this node holds of a keyspace was repaired after its last change.
func (d *Drops) hasRepaired(g GainedData) bool {
	k := d.o.View.Schema().Keyspace(g.Keyspace)
	if k == nil {
		return false
	}
	since, self := max(g.Since, 1), d.o.View.Self()
	for _, piece := range d.o.View.Topology().Placement(k.Replication).Ranges(ring.FullRange()) {
		if !slices.Contains(piece.Replicas.Natural, self) {
			continue
		}
		for _, id := range tablesOf(k) {
			if d.o.Repaired.Since(id, piece.Range) < since {
				return false
			}
		}
	}
	return true
}
