package rebalance

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
	"cqld/types"
)

// deadSourceView is the metadata of a test node that considers one other node dead.
type deadSourceView struct {
	view
	dead ring.NodeID
}

func (v *deadSourceView) Alive(id ring.NodeID) bool { return id != v.dead }

// TestFailedSessionsDoNotRepeatOthers lets one of two sources of a range fail again and again, while the other does not
// reply. Each failure leads to one more attempt with the source that failed. Seed 870074 of the simulation found
// attempts with both, whose number doubled with each pause.
func TestFailedSessionsDoNotRepeatOthers(t *testing.T) {
	const failures = 2
	catalog, err := schema.Apply(schema.Initial(), &schema.CreateKeyspace{
		Keyspace: "k", Replication: ring.Replication{Class: ring.Simple, Factor: 3}, DurableWrites: true})
	if err != nil {
		t.Fatal(err)
	}
	catalog, err = schema.Apply(catalog, &schema.CreateTable{Keyspace: "k", Table: "t", ID: schema.UUID{1},
		Options: schema.DefaultOptions(),
		Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Text)}}})
	if err != nil {
		t.Fatal(err)
	}
	o := &ring.Operation{ID: 7, Kind: ring.Join, Node: 1, Phase: ring.Streaming, Tokens: []ring.Token{0},
		Gaining: []ring.NodeID{1}}
	nodes := []*ring.Node{{ID: 1, Datacenter: "dc1", State: ring.Joining, Tokens: o.Tokens}}
	for id := ring.NodeID(2); id <= 4; id++ {
		nodes = append(nodes, &ring.Node{ID: id, Datacenter: "dc1", State: ring.Normal,
			Tokens: []ring.Token{ring.Token(id) << 60}})
	}
	v := &deadSourceView{view: view{self: 1, schema: catalog,
		topology: ring.NewMovingTopology(9, 9, nodes, []*ring.Operation{o})}, dead: 2}
	w := &moveWorld{t: t, catalog: catalog}
	engine, err := storage.Open(storage.Options{Dir: "data", FS: vfs.NewMem(), Clock: w, Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	local := replica.NewLocal(engine, v, nil)
	local.SetPaxos(testStates{})
	streams := NewStreams(StreamOptions{View: v, Local: local, Engine: engine, Transport: services{}, Clock: w,
		Run: here, Changed: ignoreChanges})
	moves := NewMovements(MovementOptions{View: v, Log: w, Streams: streams, Local: local, Clock: w, Run: here})
	machine := &moves.mu.machine
	m := machine.newMovement(o)
	machine.movements[o.ID] = m
	for _, f := range m.gained(v.topology) {
		sessions, ok := m.plan(f)
		if f.keyspaces[0] == "k" && f.tables[0] != schema.PaxosTable && ok && len(sessions) == 2 {
			m.queued = append(m.queued, f)
		}
	}
	if len(m.queued) != 1 {
		t.Fatalf("%d ranges have two sources, want only the range of which node 2 was a replica", len(m.queued))
	}
	m.pause = machine.number()
	moves.deliver(&moveEvent{kind: moveResumed, movement: m, number: m.pause})
	failing := m.sessions[0]
	for range failures {
		streams.Cancel(failing)
		due := w.timers
		w.timers = nil
		for _, f := range due {
			f()
		}
	}
	attempts := map[string]int{}
	for _, id := range m.sessions {
		attempts[id]++
	}
	if len(attempts) != 2 || attempts[failing] != failures+1 || len(m.sessions) != failures+2 || len(m.running) != 2 {
		t.Errorf("sessions started: %v; %d run", attempts, len(m.running))
	}
	if n := len(m.queued) + len(m.retries) + len(m.waiting); n > 0 {
		t.Errorf("%d ranges or sessions wait", n)
	}
}
