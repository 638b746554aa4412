package system

import (
	"slices"
	"sync/atomic"

	"cqld/row"
)

// keyOrder caches the partition keys of one snapshot's elements in partition order. Every page of a scan uses the
// order; sorting all keys for each page would make the scan quadratic. It is safe for concurrent use. The zero value is
// empty. Only the last snapshot is kept: pages of an older one sort again. A schema of 1,000 keyspaces in pages of 100
// rows would otherwise be sorted at each page.
type keyOrder[Snapshot comparable] struct {
	last atomic.Pointer[orderedKeys[Snapshot]]
}

// orderedKeys is immutable. It may be used by several goroutines at once.
type orderedKeys[Snapshot comparable] struct {
	snapshot Snapshot
	names    []string
	keys     []row.PartitionKey // of the names
}

// of returns the order for a snapshot, which is immutable. names lists its elements in any order. Concurrent calls for
// a new snapshot may both sort; either result is correct.
func (o *keyOrder[Snapshot]) of(snapshot Snapshot, names func() []string) *orderedKeys[Snapshot] {
	// Snapshots are compared by identity: a change makes a new one.
	if last := o.last.Load(); last != nil && last.snapshot == snapshot {
		return last
	}
	next := &orderedKeys[Snapshot]{snapshot: snapshot}
	// Hash each key once instead of in each comparison.
	byName := map[string]row.PartitionKey{}
	for _, name := range names() {
		next.names = append(next.names, name)
		byName[name] = row.NewPartitionKey([]byte(name))
	}
	slices.SortFunc(next.names, func(x, y string) int { return byName[x].Compare(byName[y]) })
	for _, name := range next.names {
		next.keys = append(next.keys, byName[name])
	}
	o.last.Store(next)
	return next
}

// each calls add for the names whose partitions the command reads, in partition order, until more than b.limit rows
// were added. It then sets b.cut.
func (o *orderedKeys[Snapshot]) each(b *builder, add func(name string)) {
	for i, name := range o.names {
		if !b.cmd.ReadsPartition(o.keys[i]) {
			continue
		}
		// Adding one element beyond the limit shows the caller that more rows follow.
		if b.cut = b.cut || b.limit > 0 && b.read > b.limit; b.cut {
			return
		}
		add(name)
	}
}
