package rebalance

import (
	"fmt"

	"cqld/messaging"
	"cqld/ring"
	"cqld/schema"
)

// perform performs an effect that does not wait for the disk.
func (d *Drops) perform(e *dropEffect) {
	number, metadata := e.number, d.o.Metadata
	//exhaustive:enforce
	switch e.kind {
	case effectSearch, effectFence, effectDrop, effectUnfence: // execute
	case effectConfirm:
		metadata.StartConfirm(func() { d.confirmed(number) })
	case effectAsk:
		node := e.node
		d.o.Transport.Request(node, messaging.VerbHolds, e.request, holdsTimeout, func(p []byte, err error) {
			d.deliver(&dropEvent{kind: dropAnswered, number: number, node: node, answers: p, err: err})
		})
	case effectCount:
		for _, c := range e.cleanups {
			if c.progress != nil {
				c.progress(e.done, e.all)
			}
		}
	case effectSettle:
		metadata.StartSettled(e.keyspace, e.epoch, func(error) {})
	case effectClean:
		metadata.StartCleaned(e.epoch, func(err error) {
			d.deliver(&dropEvent{kind: dropReported, number: number, err: err})
		})
	case effectAnswer:
		for _, c := range e.cleanups {
			c.done(e.err)
		}
	case effectWarn:
		d.o.Log.Warn("data of ranges that this node no longer holds was not dropped yet", "err", e.err)
	case effectRetry:
		d.o.Clock.After(e.after, func() { d.deliver(&dropEvent{kind: dropResumed, number: number}) })
	case effectReconcile:
		d.Reconcile()
	case effectCheck:
		d.o.Clock.After(e.after, func() { d.o.Run(d.checkGained) })
	case effectRegain:
		metadata.StartRegained(e.keyspace, e.epoch, func(error) {})
	}
}

// confirmed delivers the event that the metadata were confirmed. Until it returns, View has the confirmed metadata.
func (d *Drops) confirmed(number uint64) {
	t := d.o.View.Topology()
	ev := &dropEvent{kind: dropConfirmed, number: number, member: t.Node(d.o.View.Self()) != nil,
		operations: len(t.Operations()), epoch: d.o.Epoch(), unclean: d.o.Unclean(), items: d.list(),
		former: map[string]*FormerData{}}
	// The schema is read before the wait for the disk, because effectSettle must report the confirmed metadata, not a
	// later change.
	for _, name := range d.o.View.Schema().StoredKeyspaceNames() {
		if f := d.o.Former(name); f != nil {
			ev.former[name] = f
		}
	}
	d.deliver(ev)
}

// execute performs an effect that waits for the disk, and returns its event.
func (d *Drops) execute(e *dropEffect) *dropEvent {
	ev := &dropEvent{number: e.number}
	//exhaustive:ignore
	switch e.kind {
	case effectSearch:
		ev.kind = dropSearched
		ev.items, ev.err = d.withData(e.items)
	case effectFence:
		ev.kind = dropFenced
		// First the fence, then the second list: what this node gains after the list, it cannot receive before Unfence.
		d.o.Local.Fence(fenced(e.items))
		ev.items = still(e.items, d.list())
		// Items that this node holds again are not dropped, and their fence is removed at once.
		d.o.Local.Fence(fenced(ev.items))
	case effectDrop:
		ev.kind = dropRemoved
		if e.unit.states {
			ev.err = d.dropStates(&e.unit)
		} else {
			ev.err = d.dropTable(e.unit.table, e.unit.tokens)
		}
	case effectUnfence:
		d.o.Local.Unfence()
		ev.kind = dropUnfenced
	}
	return ev
}

// withData returns the items with data.
func (d *Drops) withData(items []dropItem) (kept []dropItem, err error) {
	d.o.Local.Settle() // mutations that were admitted while this node held the ranges are with the engine
	if err := d.o.Engine.Drain(); err != nil {
		return nil, err
	}
	for _, item := range items {
		var tables []schema.StorageID
		for _, id := range item.tables {
			// Only tables with data are kept in the item, so that the log and the statistics name what was dropped.
			empty, err := d.o.Engine.EmptyRange(id, item.tokens)
			if err != nil {
				return nil, fmt.Errorf("rebalance: look for data of table %s in %s: %w",
					d.o.View.Schema().NameOf(id), item.tokens, err)
			}
			// Replicas are not asked about ranges without data.
			if !empty {
				tables = append(tables, id)
			}
		}
		if item.states {
			if item.states, err = d.o.Engine.HasRows(schema.PaxosTable, item.tokens,
				d.o.Local.StatesOf(item.keyspace)); err != nil {
				return nil, fmt.Errorf("rebalance: look for Paxos states of keyspace %s in %s: %w", item.keyspace,
					item.tokens, err)
			}
		}
		// Items without data need neither a confirmation nor a fence.
		if item.tables = tables; len(tables) > 0 || item.states {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// dropStates drops the Paxos states of a keyspace in a range.
func (d *Drops) dropStates(u *dropUnit) error {
	if err := d.o.Engine.DropRows(schema.PaxosTable, u.tokens, d.o.Local.StatesOf(u.keyspace)); err != nil {
		return fmt.Errorf("rebalance: drop Paxos states of keyspace %s in %s: %w", u.keyspace, u.tokens, err)
	}
	// The cache of Paxos states must not keep states that were removed from the disk.
	d.o.Changed(schema.PaxosTable)
	return nil
}

// dropTable drops a range of a table, counts it and logs it.
func (d *Drops) dropTable(id schema.StorageID, tokens ring.Range) error {
	// The size is measured before the drop, for the statistics.
	size, err := d.o.Engine.SizeOf(id, tokens)
	if err == nil {
		err = d.o.Engine.DropRange(id, tokens)
	}
	if err != nil {
		return fmt.Errorf("rebalance: drop %s of table %s: %w", tokens, d.o.View.Schema().NameOf(id), err)
	}
	d.o.Changed(id)
	d.ranges.Add(1)
	d.bytes.Add(size)
	// The names are for the log only; the table may have been dropped since the decision.
	keyspace, table := "", "(dropped)"
	if t := d.o.View.Schema().TableByStorage(id); t != nil {
		keyspace, table = t.Keyspace, t.Name
	}
	d.o.Log.Info("dropped a range that this node no longer holds", "keyspace", keyspace, "table", table,
		"range", tokens.String(), "epoch", d.o.Epoch(), "bytes", size)
	return nil
}
