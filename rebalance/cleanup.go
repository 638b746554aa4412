package rebalance

import (
	"slices"

	"cqld/schema"
)

// cleanup is an operator's request to remove data of ranges that this node no longer holds.
//
// The machine of Drops has the lists that contain it, and the shell calls done without the lock.
type cleanup struct {
	keyspace string              // empty means all
	tables   []schema.StorageID  // of the keyspace; nil means all
	progress func(done, all int) // may be nil
	done     func(error)
}

// Cleanup removes data of ranges that this node does not hold, of the given tables of a keyspace. Nil tables mean all
// tables of the keyspace; an empty keyspace means all. While the node has data of ranges that it lost by a change of
// the ring, Cleanup covers all tables. progress, which may be nil, receives the numbers of ranges that were dropped and
// that will be, counted for each table. done is called once: with nil when no such data are left, or with the reason
// why some stay. cancel ends the request with ErrCancelled, unless it has ended; ranges that were dropped stay dropped.
func (d *Drops) Cleanup(keyspace string, tables []schema.StorageID, progress func(done, all int),
	done func(error)) (cancel func()) {
	c := &cleanup{keyspace, tables, progress, done}
	d.deliver(&dropEvent{kind: dropRequested, cleanup: c})
	return func() { d.deliver(&dropEvent{kind: dropCancelled, cleanup: c}) }
}

// limit restricts a decision that was requested by operators only to the tables that they named. Paxos states are
// dropped with whole keyspaces.
func (x *dropDecision) limit(wanted []*cleanup) {
	// A decision for lost ranges must cover all of them before this node may gain ranges again.
	if x.unclean != 0 || slices.ContainsFunc(wanted, func(c *cleanup) bool { return c.keyspace == "" }) {
		return
	}
	var items []dropItem
	for _, item := range x.items {
		item.tables = slices.DeleteFunc(slices.Clone(item.tables), func(id schema.StorageID) bool {
			return !slices.ContainsFunc(wanted, func(c *cleanup) bool {
				return c.keyspace == item.keyspace && (c.tables == nil || slices.Contains(c.tables, id))
			})
		})
		// States of all tables of a keyspace share rows of system.paxos.
		item.states = item.states && slices.ContainsFunc(wanted,
			func(c *cleanup) bool { return c.keyspace == item.keyspace && c.tables == nil })
		// Paxos states of no keyspace are dropped only by a decision about everything.
		if item.keyspace != "" && (len(item.tables) > 0 || item.states) {
			items = append(items, item)
		}
	}
	x.items = items
	for keyspace := range x.former { // the decision does not cover all tables of the keyspace
		if !slices.ContainsFunc(wanted, func(c *cleanup) bool { return c.keyspace == keyspace && c.tables == nil }) {
			delete(x.former, keyspace)
		}
	}
}
