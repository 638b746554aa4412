package replica

import (
	"errors"
	"slices"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// ErrFenced refuses requests for a range of tokens while its data are being dropped. It is transient: a coordinator
// whose plan includes this node stores a hint, and read repair or repair delivers the rest.
var ErrFenced = errors.New("replica: this node is dropping its data of the range")

// FencedRange is a range of tokens, which does not wrap, of some tables.
//
// Ranges that this node has lost by a change of the ring are fenced while their data is dropped.
type FencedRange struct {
	Tables []schema.StorageID
	Tokens ring.Range
}

// Fence refuses mutations, votes and streams for exactly these ranges, until Unfence or another Fence. Fence returns
// when storage has all mutations that were admitted before.
func (l *Local) Fence(ranges []FencedRange) {
	// The ranges are stored before the wait, so that the wait covers every mutation that entered the gate without
	// seeing them.
	l.fenced.Store(&ranges)
	l.gate.wait()
}

// Unfence admits requests for all ranges again.
func (l *Local) Unfence() { l.fenced.Store(nil) }

// refuseFenced refuses mutations of fenced ranges. The caller has entered the gate.
func (l *Local) refuseFenced(mutations []*row.Mutation) error {
	// Usually no range is fenced.
	if l.fenced.Load() == nil {
		return nil
	}
	for _, m := range mutations {
		if l.Fenced(m.Table, ring.Range{Start: m.Key.Token - 1, End: m.Key.Token}) {
			return &coordinator.ReplicaFailure{Message: ErrFenced.Error()}
		}
	}
	return nil
}

// Fenced reports whether any token of a range of a table is fenced.
func (l *Local) Fenced(table schema.StorageID, tokens ring.Range) bool {
	ranges := l.fenced.Load()
	return ranges != nil && slices.ContainsFunc(*ranges, func(r FencedRange) bool {
		return slices.Contains(r.Tables, table) && r.Tokens.Overlaps(tokens)
	})
}
