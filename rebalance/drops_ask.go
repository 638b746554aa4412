package rebalance

import (
	"errors"
	"fmt"
	"slices"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
)

// holding is a range of a keyspace, and the answers of its replicas.
//
// It is the question on the asking node, and without replicas and yes the decoded question on the asked one.
type holding struct {
	keyspace string
	tokens   ring.Range
	since    int64 // the whole range must have been repaired since; 0 means that repairs do not matter
	replicas []ring.NodeID
	yes      int // replicas that hold it
	item     int // of the decision
}

// enough reports whether at least half of the replicas confirmed that they hold the range. That each has all
// acknowledged writes follows from the metadata log; the answers show that the replicas are alive, know that they hold
// the range, and can read it. A majority would be too strict: of two replicas with one dead, a majority never answers,
// and no node could replace the dead one.
func (h *holding) enough() bool { return 2*h.yes >= len(h.replicas) && h.yes > 0 }

// ask asks the replicas of all ranges of the decision. The fence follows when enough of them hold each. System
// keyspaces, such as traces, never block a drop.
func (m *dropMachine) ask(out []dropEffect) []dropEffect {
	x := &m.decision
	// Data of a former replication that the present replicas cannot get from each other may exist only here.
	var items []dropItem
	for i := range x.items {
		if item := &x.items[i]; item.former == nil || item.former.Reachable {
			items = append(items, *item)
			continue
		}
		x.leave(&x.items[i], "its present replicas may lack data of the former ones; add the former ones to the "+
			"replication, repair the keyspace, and change the replication again")
	}
	x.items = items
	for i := range items {
		x.addHoldings(i, m.view)
	}
	// Each node is asked once, about all its pieces. The order is the same in every run of a simulation.
	slices.Sort(x.open)
	// No replica has to be asked.
	if len(x.open) == 0 {
		return m.selectItems(out)
	}
	number := m.enter(dropAsking)
	for _, n := range x.open {
		out = append(out, dropEffect{kind: effectAsk, number: number, node: n,
			request: appendHolds(nil, x.epoch, x.of(n))})
	}
	return out
}

// addHoldings adds the pieces of an item, and their replicas.
func (x *dropDecision) addHoldings(i int, view coordinator.View) {
	item, catalog, t := &x.items[i], view.Schema(), view.Topology()
	// Data of former replications must have been copied by a repair; lost ranges were streamed and compared.
	since := int64(0)
	if item.former != nil {
		since = max(item.former.Since, 1)
	}
	// An item without a keyspace concerns Paxos states of all keyspaces.
	for _, name := range catalog.StoredKeyspaceNames() {
		k := catalog.StoredKeyspace(name)
		if k.Replication.Class == ring.Local || schema.IsReplicatedSystem(name) || len(tablesOf(k)) == 0 ||
			item.keyspace != "" && item.keyspace != name {
			continue
		}
		// The replicas of each piece answer for it alone.
		for _, piece := range t.Placement(k.Replication).Ranges(item.tokens) {
			x.holdings = append(x.holdings, &holding{keyspace: name, tokens: piece.Range, since: since,
				replicas: piece.Replicas.Natural, item: i})
			for _, n := range piece.Replicas.Natural {
				if !slices.Contains(x.open, n) {
					x.open = append(x.open, n)
				}
			}
		}
	}
}

// of returns the holdings that a node is asked about: those that it holds by the topology of the question.
func (x *dropDecision) of(n ring.NodeID) (of []*holding) {
	for _, h := range x.holdings {
		if slices.Contains(h.replicas, n) {
			of = append(of, h)
		}
	}
	return of
}

// answered counts a node's answer. A missing answer counts as no confirmation after holdsTimeout, so the questions
// always end.
func (m *dropMachine) answered(ev *dropEvent, out []dropEffect) []dropEffect {
	x := &m.decision
	i := slices.Index(x.open, ev.node)
	if i < 0 {
		return out // a second answer
	}
	x.open = slices.Delete(x.open, i, i+1)
	of := x.of(ev.node)
	if ev.err == nil && len(ev.answers) == len(of) {
		for i, h := range of {
			if ev.answers[i] == 1 {
				h.yes++
				invariant.Check(h.yes <= len(h.replicas), "rebalance: more replicas confirm a range than hold it")
			}
		}
	}
	if len(x.open) > 0 {
		return out
	}
	return m.selectItems(out)
}

// selectItems decides which items are dropped, after the last answer or timeout.
func (m *dropMachine) selectItems(out []dropEffect) []dropEffect {
	x := &m.decision
	left := map[int]bool{}
	for _, h := range x.holdings {
		if h.enough() {
			continue
		}
		// A lost range stays, and with it the whole decision fails: all of it is tried again.
		if left[h.item] = true; h.since == 0 {
			return m.end(fmt.Errorf("rebalance: range %s of keyspace %s was not dropped: %d of its %d replicas "+
				"confirmed that they hold it", h.tokens, h.keyspace, h.yes, len(h.replicas)), true, out)
		}
	}
	var items []dropItem
	// Items of former replications stay alone; the others are dropped.
	for i := range x.items {
		if item := &x.items[i]; left[i] {
			x.leave(item, "its replicas have not been repaired since; run cqld ctl repair "+item.keyspace+
				", at least a minute after the change")
			continue
		}
		items = append(items, x.items[i])
	}
	x.items = items
	return m.fence(out)
}

// errMetadataBehind refuses a question about later metadata than this node has applied.
var errMetadataBehind = errors.New("rebalance: this node has not applied that metadata yet")

// serve registers the handler of VerbHolds. It does not block: the answer comes from memory.
func (d *Drops) serve() {
	d.o.Transport.Handle(messaging.Service{Verb: messaging.VerbHolds, Name: "holds",
		Handler: func(_ ring.NodeID, payload []byte, respond messaging.Respond) {
			epoch, asked, err := decodeHolds(payload)
			switch {
			case err != nil:
				respond(nil, replica.ToRemote(err))
			// An answer by an older topology could confirm a range that this node has lost since.
			case d.o.Epoch() < epoch:
				respond(nil, replica.ToRemote(&coordinator.ReplicaFailure{Message: errMetadataBehind.Error()}))
			default:
				respond(d.holds(asked), nil)
			}
		}})
}

// holds answers for each range whether this node is a replica of it and can read it.
func (d *Drops) holds(asked []*holding) []byte {
	t, self, catalog := d.o.View.Topology(), d.o.View.Self(), d.o.View.Schema()
	lost := d.o.Engine.Lost()
	out := make([]byte, len(asked))
	for i, h := range asked {
		// The answer stays 0 for a keyspace that this node does not know. One without tables is not the one of the
		// question: it was created after the drop of that one.
		k := catalog.StoredKeyspace(h.keyspace)
		if k == nil || len(tablesOf(k)) == 0 || k.Replication.Class == ring.Local || h.tokens.Wraps() {
			continue
		}
		pieces := t.Placement(k.Replication).Ranges(h.tokens)
		// The ring may be divided more finely here: all pieces must be held.
		held := len(pieces) > 0
		for _, piece := range pieces {
			held = held && slices.Contains(piece.Replicas.Natural, self)
		}
		if h.since != 0 {
			for _, id := range tablesOf(k) {
				held = held && d.o.History.Since(id, h.tokens) >= h.since
			}
		}
		// A corrupt file may have had rows of the range.
		for _, l := range lost {
			held = held && !(slices.Contains(tablesOf(k), l.Table) && l.Tokens.Overlaps(h.tokens))
		}
		if held {
			out[i] = 1
		}
	}
	return out
}
