package replica

import (
	"errors"
	"slices"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// errDropped refuses what would write to a range while it is being dropped. It is transient: a coordinator that knows
// this node as a replica sends a hint, and repairs.
var errDropped = errors.New("replica: this node drops what it had of the range")

// fence closes ranges to writes, votes and pulls until unfence. choose gives the ranges: it is called when everything
// that was admitted before is with the engine, and nothing is admitted meanwhile.
func (l *Local) fence(choose func() []dropItem) []dropItem {
	l.gate.Lock()
	defer l.gate.Unlock()
	items := choose()
	l.fenced = items
	return items
}

func (l *Local) unfence() {
	l.gate.Lock()
	defer l.gate.Unlock()
	l.fenced = nil
}

// refuseFenced refuses mutations of ranges that are being dropped. The gate is held.
func (l *Local) refuseFenced(mutations []*row.Mutation) error {
	for _, m := range mutations {
		if len(l.fenced) > 0 && l.fencedOff(m.Table, ring.Range{Start: m.Key.Token - 1, End: m.Key.Token}) {
			return &coordinator.ReplicaFailure{Message: errDropped.Error()}
		}
	}
	return nil
}

// fencedOff says whether some tokens of a table are being dropped. The gate is held.
func (l *Local) fencedOff(table schema.StorageID, tokens ring.Range) bool {
	return slices.ContainsFunc(l.fenced, func(item dropItem) bool {
		return slices.Contains(item.tables, table) && item.tokens.Overlaps(tokens)
	})
}

// Fenced says whether some tokens of a table are being dropped: a pull must wait.
func (l *Local) Fenced(table schema.StorageID, tokens ring.Range) bool {
	l.gate.RLock()
	defer l.gate.RUnlock()
	return len(l.fenced) > 0 && l.fencedOff(table, tokens)
}
