package admin

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"cqld/cluster"
	"cqld/internal/release"
	"cqld/messaging"
	"cqld/node/control"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/index"
)

// Peers exchanges facts with the other nodes: what only a node itself knows. It is the only exchange between the
// control ports of nodes. It is used by operators' commands and by reads of virtual tables, never on the path of a
// request for data.
type Peers struct {
	cluster   *cluster.Cluster
	engine    *storage.Engine
	values    *index.Values
	transport *messaging.StreamTransport
	// backups answers requests for this node's part of a backup or a restoration.
	backups func(message []byte) ([]byte, error)
	overdue func() []control.OverdueSchedule
}

// facts are properties of a node that it reports to all other nodes on request. They are sent as JSON, because they are
// for operators and not for the data path. Unknown fields are ignored and missing ones are zero, so nodes of different
// builds understand each other.
type facts struct {
	Build  string
	Schema string
	Load   int64 // bytes of data
	// ClockAhead is how far the node's clock is ahead of the others. ClockRefuses means that the node does not serve
	// requests for this reason. ClockRefuses is true if ClockAhead is more than the cluster allows.
	ClockAhead   time.Duration
	ClockRefuses bool
	// Unbuilt are the indexes, of views too, that the node has not built. The indexes of views are included, because
	// they are the same state.
	Unbuilt []schema.StorageID
	// Overdue are the schedules of backups without a recent backup, on the node that executes the schedules.
	Overdue []control.OverdueSchedule
}

// factsTimeout bounds the wait for the answers of other nodes. A node that does not answer in this time is left out of
// the result.
const factsTimeout = time.Second

// The requests of VerbControl. The first byte of a message identifies the request.
const (
	factsRequest  = 1
	backupRequest = 2
)

// backupTimeout bounds the wait for the answer to a request of a backup, which begins work and does not wait for it.
const backupTimeout = 10 * time.Second

// Serve answers requests from the control ports of other nodes. It is called once, before the transport is opened.
func (p *Peers) Serve() {
	serve := func(_ ring.NodeID, message []byte, respond messaging.Respond) {
		if len(message) > 0 && message[0] == backupRequest {
			respond(p.backups(message[1:]))
			return
		}
		// A request of a newer version is answered with an error.
		if len(message) != 1 || message[0] != factsRequest {
			respond(nil, &messaging.RemoteError{Message: "unknown request"})
			return
		}
		b, err := json.Marshal(p.own())
		respond(b, err)
	}
	// Blocking: the handler reads files' sizes, so it runs on a worker and not in the goroutine of the connection.
	p.transport.Handle(messaging.Service{Verb: messaging.VerbControl, Name: "control", Blocking: true, Handler: serve})
}

// askBackup sends a request of a backup to another node. reply is called once, also if the node cannot be reached.
func (p *Peers) askBackup(node ring.NodeID, message []byte, reply func([]byte, error)) {
	p.transport.Request(node, messaging.VerbControl, append([]byte{backupRequest}, message...), backupTimeout,
		func(answer []byte, err error) { reply(bytes.Clone(answer), err) })
}

// own returns the facts of this node.
func (p *Peers) own() facts {
	f := facts{Build: release.Build(), Schema: p.cluster.Metadata().Schema.Version().String(), Load: p.Load(),
		Unbuilt: p.OwnUnbuilt(), Overdue: p.overdue()}
	f.ClockAhead, f.ClockRefuses = p.cluster.ClockOffset()
	return f
}

// Load returns the size of the node's data in bytes: its live files and memtables, without logs and obsolete files. It
// is what nodetool calls the load of a node.
func (p *Peers) Load() int64 {
	// A failed engine reports no metrics.
	if m := p.engine.Metrics().Pebble; m != nil {
		total := m.Total()
		return total.TablesSize + int64(m.MemTable.Size)
	}
	return 0
}

// all asks all live nodes. Nodes that do not answer in time are missing from the result. The facts of this node itself
// are read here and not sent. Requests time out after factsTimeout. It blocks up to factsTimeout. The map belongs to
// the caller.
func (p *Peers) all() map[ring.NodeID]facts {
	self := p.cluster.Self()
	out := map[ring.NodeID]facts{self: p.own()}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, m := range p.cluster.Metadata().Topology.Nodes() {
		// A node that is down is not asked, so the call does not wait for it.
		if m.ID == self || !p.cluster.Alive(m.ID) {
			continue
		}
		// Request calls its function exactly once: with the answer, or with an error of the connection or the timeout.
		asked.Add(1)
		// All requests are sent before any answer is awaited.
		p.transport.Request(m.ID, messaging.VerbControl, []byte{factsRequest}, factsTimeout, func(answer []byte,
			err error) {
			defer asked.Done()
			var f facts
			// A node with a newer version may send fields that this one ignores.
			if err == nil && json.Unmarshal(answer, &f) == nil {
				mu.Lock()
				defer mu.Unlock()
				out[m.ID] = f
			}
		})
	}
	// The bound is the timeout of the requests.
	asked.Wait()
	return out
}

// Unbuilt implements system.Builds.Unbuilt. Nodes that do not answer are missing from the map. It asks the other nodes
// at each call.
func (p *Peers) Unbuilt() map[ring.NodeID][]schema.StorageID {
	out := map[ring.NodeID][]schema.StorageID{}
	for id, f := range p.all() {
		out[id] = f.Unbuilt
	}
	return out
}

// OwnUnbuilt returns the indexes that this node has not built. Work that drops an index is left out.
func (p *Peers) OwnUnbuilt() (out []schema.StorageID) {
	for _, w := range p.values.Pending(p.cluster.Metadata().Schema.IndexedIDs()) {
		if !w.Drop {
			out = append(out, w.Index)
		}
	}
	return out
}
