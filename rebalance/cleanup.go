package rebalance

import (
	"slices"

	"cqld/schema"
)

// cleanup is an operator's request to remove data of ranges that this node no longer holds.
type cleanup struct {
	keyspace string             // empty means all
	tables   []schema.StorageID // of the keyspace; nil means all
	done     func(error)
}

// Cleanup removes data of ranges that this node does not hold, of the given tables of a keyspace. Nil tables mean all tables of
// the keyspace; an empty keyspace means all. While the node has data of ranges that it lost by a change of the ring, Cleanup
// covers all tables. done is called once: with nil when no such data are left, or with the reason why some stay.
func (d *Drops) Cleanup(keyspace string, tables []schema.StorageID, done func(error)) {
	d.begin(&cleanup{keyspace, tables, done})
}

// limit restricts a decision that was requested by operators only to the tables that they named. Paxos state belongs to all
// keyspaces together, so it stays.
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
	for keyspace := range x.former { // the decision does not cover all tables of the keyspace
		if !slices.ContainsFunc(wanted, func(c *cleanup) bool { return c.keyspace == keyspace && c.tables == nil }) {
			delete(x.former, keyspace)
		}
	}
}
