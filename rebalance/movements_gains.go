package rebalance

import (
	"fmt"
	"slices"

	"cqld/ring"
	"cqld/schema"
)

// gainedRange is one range that this node gains, and tables of one replication.
//
// A session of it copies one table from one source.
type gainedRange struct {
	gain   ring.Gain
	tables []schema.StorageID
	// keyspaces are the tables' keyspaces or, if it is a range of system.paxos, the states'. They have the same
	// replication.
	keyspaces []string
}

// required reports whether the operation waits for the range until enough sources are alive. It does not for system
// keyspaces.
func (f *gainedRange) required() bool {
	return slices.ContainsFunc(f.keyspaces, func(name string) bool { return !schema.IsReplicatedSystem(name) })
}

// gained returns the ranges that this node gains. Unless they are compared, it adds the ranges of Paxos state: votes of
// both sides count, so the new replicas need the votes of the old ones.
func (v *movement) gained(t *ring.Topology) (all []*gainedRange) {
	catalog, self := v.m.view.Schema(), v.m.view.Self()
	var states [][]string // keyspaces of the same replication
	for _, name := range catalog.StoredKeyspaceNames() {
		k := catalog.StoredKeyspace(name)
		tables := tablesOf(k)
		if k.Replication.Class == ring.Local || len(tables) == 0 {
			continue
		}
		for _, g := range t.Gains(v.operation, k.Replication, self) {
			all = append(all, &gainedRange{gain: g, tables: tables, keyspaces: []string{name}})
		}
		// States of keyspaces with one replication move together: one session streams them all.
		same := slices.IndexFunc(states, func(of []string) bool {
			return catalog.StoredKeyspace(of[0]).Replication.Equal(k.Replication)
		})
		if same < 0 {
			same, states = len(states), append(states, nil)
		}
		states[same] = append(states[same], name)
	}
	// States were streamed in the first phase. From the switch on, the node votes itself.
	if v.compare {
		return all
	}
	for _, keyspaces := range states {
		for _, g := range t.Gains(v.operation, catalog.StoredKeyspace(keyspaces[0]).Replication, self) {
			all = append(all, &gainedRange{gain: g, tables: []schema.StorageID{schema.PaxosTable},
				keyspaces: keyspaces})
		}
	}
	return all
}

// plan chooses the sources of a range: the node that loses it, if it is alive, because this node's copy replaces that
// one in every quorum; otherwise so many of the others that at least one of them has each write that a quorum
// acknowledged. It reports false when too few of them are alive.
func (v *movement) plan(f *gainedRange) (sessions []Session, ok bool) {
	from := []ring.NodeID{f.gain.From}
	if f.gain.From == 0 || !v.m.view.Alive(f.gain.From) {
		if from, ok = v.sources(f.gain); !ok && f.required() && !v.partial {
			return nil, false
		}
	}
	for _, source := range from {
		for _, table := range f.tables {
			// The ID is the same in every process, so that a restarted node continues the session at its stored
			// position.
			p := Session{
				ID:    fmt.Sprintf("%d/%d/%s/%d", v.operation.ID, table, f.gain.Range, source),
				Epoch: v.epoch(), Table: table, Range: f.gain.Range, Source: source,
			}
			if table == schema.PaxosTable {
				p.ID, p.Keyspaces = p.ID+"/"+f.keyspaces[0], f.keyspaces
			}
			sessions = append(sessions, p)
		}
	}
	return sessions, true
}

// sources returns the live sources of a range, beginning with this node's data center, and false when they are too few.
// A node that is no longer a member has none: its operation was aborted, and Reconcile has not received that topology
// yet.
func (v *movement) sources(g ring.Gain) (from []ring.NodeID, ok bool) {
	view := v.m.view
	t := view.Topology()
	self := t.Node(view.Self())
	if self == nil {
		return nil, false
	}
	var far []ring.NodeID
	for _, id := range g.Sources {
		source := t.Node(id)
		switch {
		// The losing node is used alone or not at all.
		case id == g.From || source == nil || !view.Alive(id):
		case source.Datacenter == self.Datacenter:
			from = append(from, id)
		default:
			far = append(far, id)
		}
	}
	if len(g.Sources) == 0 || v.operation.Force && len(from)+len(far) == 0 {
		return nil, true // the operator accepted the loss, or it is a system keyspace
	}
	// Quorums of the data center require Local sources in it; quorums of the ring require Total sources anywhere.
	enough := len(from) >= g.Local
	from = append(from[:min(len(from), max(g.Local, g.Total))], far...)
	enough = enough && len(from) >= g.Total
	return from[:min(len(from), max(g.Total, g.Local))], enough
}

// gainOf returns the range of a session in the present topology, or nil if this node no longer gains it.
func (v *movement) gainOf(p Session) *gainedRange {
	catalog := v.m.view.Schema()
	// The ring or the schema may have changed since the session was planned, so its gain is looked up again.
	keyspaces := p.Keyspaces
	if t := catalog.TableByStorage(p.Table); p.Table != schema.PaxosTable && t != nil {
		keyspaces = []string{t.Keyspace}
	}
	keyspaces = slices.DeleteFunc(slices.Clone(keyspaces),
		func(name string) bool { return catalog.KeyspaceCalled(name) == nil }) // dropped, and not retained
	if len(keyspaces) == 0 {
		return nil
	}
	for _, g := range v.m.view.Topology().Gains(v.operation, catalog.KeyspaceCalled(keyspaces[0]).Replication,
		v.m.view.Self()) {
		// If the bounds have changed, the range is covered by the gains of a later topology.
		if g.Range == p.Range {
			return &gainedRange{gain: g, tables: []schema.StorageID{p.Table}, keyspaces: keyspaces}
		}
	}
	return nil
}

// tablesOf returns the tables of a keyspace, in the order of their names, with the dropped tables that can be restored
// (ADR 50). Views store no rows of their own (ADR 38).
func tablesOf(k *schema.Keyspace) (ids []schema.StorageID) {
	for _, t := range k.StoredTables() {
		ids = append(ids, t.StorageID)
	}
	return ids
}

// heldBy returns the ranges of a placement that a node holds at any stage of the operations in progress, in token
// order. A live node that is being removed is neither a natural nor a pending replica while the operation is switching,
// but it is a replica again if the operation is aborted.
func heldBy(p *ring.Placement, id ring.NodeID) (out []ring.Range) {
	for _, r := range p.Ranges(ring.FullRange()) {
		if r.Replicas.Involves(id) {
			out = append(out, r.Range)
		}
	}
	return out
}

// gaps returns the ranges between those held, in token order. None of the ranges wraps.
func gaps(held []ring.Range) (out []ring.Range) {
	// Ranges of several keyspaces overlap and are not in order.
	slices.SortFunc(held, func(a, b ring.Range) int {
		switch {
		case a.Start < b.Start:
			return -1
		case a.Start > b.Start:
			return 1
		}
		return 0
	})
	at := ring.MinToken
	for _, r := range held {
		if r.Start > at {
			out = append(out, ring.Range{Start: at, End: r.Start})
		}
		if r.End == ring.MinToken {
			return checkedGaps(held, out) // the last range ends at the end of the ring
		}
		// A range may lie within an earlier one.
		at = max(at, r.End)
	}
	return checkedGaps(held, append(out, ring.Range{Start: at, End: ring.MinToken}))
}
