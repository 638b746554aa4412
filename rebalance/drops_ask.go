package rebalance

import (
	"errors"
	"fmt"
	"slices"
	"sync"

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

// dropQuestion collects the replicas' answers for a decision.
//
// An answer that does not come within holdsTimeout counts as no confirmation, so the question always ends.
type dropQuestion struct {
	x  *dropDecision
	mu sync.Mutex
	// Guarded by mu.
	holdings []*holding
	open     int // nodes without an answer
}

// ask asks the replicas of all ranges of the decision, and continues with drop when enough of them hold each. System
// keyspaces, such as traces, never block a drop.
func (x *dropDecision) ask() {
	// Data of a former replication that the present replicas cannot get from each other may exist only here.
	x.items = slices.DeleteFunc(x.items, func(item dropItem) bool {
		out := item.former != nil && !item.former.Reachable
		if out {
			x.leave(item, "its present replicas may lack data of the former ones; add the former ones to the "+
				"replication, repair the keyspace, and "+
				"change the replication again")
		}
		return out
	})
	q := &dropQuestion{x: x}
	view := x.d.o.View
	catalog, t := view.Schema(), view.Topology()
	var nodes []ring.NodeID
	for i, item := range x.items {
		// Data of former replications must have been copied by a repair; lost ranges were streamed and compared.
		since := int64(0)
		if item.former != nil {
			since = max(item.former.Since, 1)
		}
		// An item without a keyspace concerns Paxos states of all keyspaces.
		for _, name := range catalog.KeyspaceNames() {
			k := catalog.Keyspace(name)
			if k.Replication.Class == ring.Local || schema.IsReplicatedSystem(name) || item.keyspace != "" &&
				item.keyspace != name ||
				len(tablesOf(k)) == 0 {
				continue
			}
			// The replicas of each piece answer for it alone.
			for _, piece := range t.Placement(k.Replication).Ranges(item.tokens) {
				q.holdings = append(q.holdings, &holding{keyspace: name, tokens: piece.Range, since: since,
					replicas: piece.Replicas.Natural, item: i})
				for _, n := range piece.Replicas.Natural {
					if !slices.Contains(nodes, n) {
						nodes = append(nodes, n)
					}
				}
			}
		}
	}
	// Each node is asked once, about all its pieces. The order is the same in every run of a simulation.
	slices.Sort(nodes)
	// No replica has to be asked.
	if q.open = len(nodes); q.open == 0 {
		q.finish()
		return
	}
	for _, n := range nodes {
		q.askNode(n)
	}
}

// askNode asks one node about all ranges that it holds by the confirmed topology.
func (q *dropQuestion) askNode(n ring.NodeID) {
	d := q.x.d
	var of []*holding
	for _, h := range q.holdings {
		if slices.Contains(h.replicas, n) {
			of = append(of, h)
		}
	}
	d.o.Transport.Request(n, messaging.VerbHolds, appendHolds(nil, q.x.epoch, of), holdsTimeout,
		func(p []byte, err error) {
			// The payload belongs to the transport, and the answer is counted in another goroutine, because drop waits
			// for the disk.
			p = slices.Clone(p)
			d.o.Run(func() { q.answered(of, p, err) })
		})
}

// answered is the event of a node's answer.
func (q *dropQuestion) answered(of []*holding, p []byte, err error) {
	if q.count(of, p, err) {
		q.finish()
	}
}

// count counts a node's answer, and reports whether it is the last one.
func (q *dropQuestion) count(of []*holding, p []byte, err error) (last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	invariant.Check(q.open > 0, "rebalance: more answers than nodes")
	q.open--
	// No answer counts as no confirmation.
	if err != nil || len(p) != len(of) {
		return q.open == 0
	}
	for i, h := range of {
		if p[i] == 1 {
			h.yes++
			invariant.Check(h.yes <= len(h.replicas), "rebalance: more replicas confirm a range than hold it")
		}
	}
	return q.open == 0
}

// finish is the event of the last answer or timeout.
func (q *dropQuestion) finish() {
	left := map[int]bool{}
	for _, h := range q.holdings {
		if h.enough() {
			continue
		}
		// A lost range stays, and with it the whole decision fails: all of it is tried again.
		if left[h.item] = true; h.since == 0 {
			q.x.d.end(fmt.Errorf("rebalance: range %s of keyspace %s was not dropped: %d of its %d replicas "+
				"confirmed that they hold it", h.tokens, h.keyspace,
				h.yes, len(h.replicas)), true)
			return
		}
	}
	var items []dropItem
	// Items of former replications stay alone; the others are dropped.
	for i, item := range q.x.items {
		if left[i] {
			q.x.leave(item, "its replicas have not been repaired since; run cqld ctl repair "+item.keyspace+
				", at least a minute after the change")
			continue
		}
		items = append(items, item)
	}
	q.x.items = items
	q.x.drop()
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
		// The answer stays 0 for a keyspace that this node does not know.
		k := catalog.Keyspace(h.keyspace)
		if k == nil || k.Replication.Class == ring.Local || h.tokens.Wraps() {
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
