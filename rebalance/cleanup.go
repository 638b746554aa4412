package rebalance

import (
	"slices"

	"cqld/schema"
)

// cleanup is an operator's request to remove data that this node does not hold any more.
type cleanup struct {
	keyspace string             // empty: all
	tables   []schema.StorageID // of the keyspace; nil: all
	done     func(error)
}

// Cleanup makes a decision for an operator, about the named tables of a keyspace; without tables about all of them, and
// without a keyspace about everything. While data must go because the ring has changed, the decision is about everything
// anyway. done is called once: with nil when nothing is left of ranges that this node does not hold, or with why something
// stays.
func (d *Drops) Cleanup(keyspace string, tables []schema.StorageID, done func(error)) {
	d.begin(&cleanup{keyspace, tables, done})
}

// limit restricts a decision that only operators asked for to what they named. The state of lightweight transactions is
// of all keyspaces together, so it stays.
func (x *dropDecision) limit(wanted []*cleanup) {
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
		if item.keyspace != "" && len(item.tables) > 0 {
			items = append(items, item)
		}
	}
	x.items = items
	for keyspace := range x.former { // nothing is known of the tables that were left out
		if !slices.ContainsFunc(wanted, func(c *cleanup) bool { return c.keyspace == keyspace && c.tables == nil }) {
			delete(x.former, keyspace)
		}
	}
}
