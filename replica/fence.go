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

// fence closes ranges to writes, votes and pulls until unfence, and returns when everything that was admitted to them before is
// with the engine. choose then says which of them stay closed.
func (l *Local) fence(candidates []dropItem, choose func() []dropItem) []dropItem {
	l.fenced.Store(&candidates)
	l.gate.wait()
	items := choose()
	l.fenced.Store(&items)
	return items
}

func (l *Local) unfence() { l.fenced.Store(nil) }

// refuseFenced refuses mutations of ranges that are being dropped. The caller has entered the gate.
func (l *Local) refuseFenced(mutations []*row.Mutation) error {
	if l.fenced.Load() == nil {
		return nil
	}
	for _, m := range mutations {
		if l.Fenced(m.Table, ring.Range{Start: m.Key.Token - 1, End: m.Key.Token}) {
			return &coordinator.ReplicaFailure{Message: errDropped.Error()}
		}
	}
	return nil
}

// Fenced says whether some tokens of a table are being dropped: a pull must wait, and so must a vote.
func (l *Local) Fenced(table schema.StorageID, tokens ring.Range) bool {
	items := l.fenced.Load()
	return items != nil && slices.ContainsFunc(*items, func(item dropItem) bool {
		return slices.Contains(item.tables, table) && item.tokens.Overlaps(tokens)
	})
}
