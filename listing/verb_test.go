package listing

import (
	"errors"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/guard"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
	"cqld/simulation/testcluster"
	"cqld/storage"
)

func samplePageRequests() []*PageRequest {
	return []*PageRequest{
		{},
		{Table: 1 << 30, Span: Span{From: []byte("a"), To: []byte("b")}, Reversed: true, Limit: 1000, Now: 1 << 40,
			Moved: 7},
		{Table: 5, Span: Span{From: []byte{}, To: []byte{}}, Limit: 1, Now: -1},
		{Table: 5, Limit: 3, Now: 1, Dead: true},
		{Table: 5, Span: Span{From: []byte("a")}, Reversed: true, Dead: true},
	}
}

func samplePages() []*Page {
	return []*Page{
		{},
		{Last: []byte("z"), Scanned: 3},
		{Keys: [][]byte{[]byte("a"), {}, []byte("c")}, Last: []byte("d"), More: true, Scanned: 1 << 20},
	}
}

func TestRequestsAndPagesRoundTrip(t *testing.T) {
	for _, q := range samplePageRequests() {
		payload := appendPageRequest(nil, 9, q)
		epoch, got, err := decodePageRequest(payload)
		if err != nil || epoch != 9 || !reflect.DeepEqual(got, q) {
			t.Errorf("%+v arrived as %+v at epoch %d: %v", q, got, epoch, err)
		}
		for cut := range payload {
			if _, _, err := decodePageRequest(payload[:cut]); err == nil {
				t.Errorf("%d of %d bytes decode as a request", cut, len(payload))
			}
		}
	}
	for _, p := range samplePages() {
		payload := appendPage(nil, p)
		got, err := decodePage(payload)
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%+v arrived as %+v: %v", p, got, err)
		}
		for cut := range payload {
			if _, err := decodePage(payload[:cut]); err == nil {
				t.Errorf("%d of %d bytes decode as a page", cut, len(payload))
			}
		}
	}
	if _, err := decodePage(appendPage(nil, &Page{More: true})); err == nil {
		t.Error("a page that is not the last one decodes without its last key")
	}
}

func FuzzDecodePartitions(f *testing.F) {
	for _, q := range samplePageRequests() {
		f.Add(appendPageRequest(nil, 9, q))
	}
	for _, p := range samplePages() {
		f.Add(appendPage(nil, p))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		if epoch, q, err := decodePageRequest(payload); err == nil {
			_, again, err := decodePageRequest(appendPageRequest(nil, epoch, q))
			if err != nil || !reflect.DeepEqual(again, q) {
				t.Errorf("%+v, encoded again %+v: %v", q, again, err)
			}
		}
		if p, err := decodePage(payload); err == nil {
			again, err := decodePage(appendPage(nil, p))
			if err != nil || !reflect.DeepEqual(again, p) {
				t.Errorf("%+v, encoded again %+v: %v", p, again, err)
			}
		}
	})
}

// loopback is a transport whose requests its own services answer at once. It clears the memory of messages afterwards,
// as a real transport reuses it.
type loopback struct {
	messaging.Transport
	services map[messaging.Verb]messaging.Service
}

func (l *loopback) Handle(s messaging.Service) { l.services[s.Verb] = s }

func (l *loopback) Request(_ ring.NodeID, verb messaging.Verb, payload []byte, _ time.Duration, reply messaging.Reply) {
	request := slices.Clone(payload)
	l.services[verb].Handler(2, request, func(answer []byte, err error) {
		answer = slices.Clone(answer)
		reply(answer, err)
		clear(answer)
	})
	clear(request)
}

// member is the view of one node.
type member struct {
	self     ring.NodeID
	schema   *schema.Schema
	topology *ring.Topology
}

func (v *member) Self() ring.NodeID                 { return v.self }
func (v *member) Schema() *schema.Schema            { return v.schema }
func (v *member) Topology() *ring.Topology          { return v.topology }
func (v *member) Alive(ring.NodeID) bool            { return true }
func (v *member) PaxosFloor(schema.StorageID) int64 { return 0 }

// disk records its requests, and panics on demand.
type disk struct {
	replica.Engine
	asked  *storage.PartitionsRead
	panics bool
}

func (d *disk) Partitions(q *storage.PartitionsRead) (storage.PartitionsPage, error) {
	if d.panics {
		panic("disk")
	}
	asked := *q
	asked.From, asked.To = slices.Clone(q.From), slices.Clone(q.To)
	d.asked = &asked
	return storage.PartitionsPage{Keys: [][]byte{[]byte("a"), []byte("b")}, Last: []byte("c"), More: true, Scanned: 3},
		nil
}

// pair returns the Directory of node 2, which reaches the Replica of node 1 through a loopback, and the disk of node 1.
// Both know epoch 5 of a ring in which node 1 holds the tokens up to 0, and node 2 those up to 1<<62.
func pair(t *testing.T, g *guard.Guard) (*Directory, *disk, *schema.Schema) {
	t.Helper()
	s := schema.Initial()
	for _, change := range testcluster.KeyOnly() {
		var err error
		if s, err = schema.Apply(s, change); err != nil {
			t.Fatal(err)
		}
	}
	var members []*ring.Node
	for i := range 2 {
		members = append(members, &ring.Node{ID: ring.NodeID(i + 1), State: ring.Normal,
			Tokens: []ring.Token{ring.Token(i) << 62}})
	}
	v := &member{self: 1, schema: s, topology: ring.NewTopology(5, members)}
	d := &disk{}
	l := &loopback{services: map[messaging.Verb]messaging.Service{}}
	Serve(l, NewReplica(ReplicaOptions{Local: replica.NewLocal(d, v, nil), View: v, Engine: d, Guard: g}))
	return NewDirectory(nil, l, &member{self: 2}), d, s
}

func TestRequestsReachStorage(t *testing.T) {
	directory, d, s := pair(t, nil)
	asked := new(coordinator.Observation)
	list := func(table *schema.Table, epoch, moved uint64) (page *Page, err error) {
		q := &PageRequest{Table: table.StorageID, Span: Span{From: []byte("a"), To: []byte("c")}, Reversed: true,
			Limit: 7, Now: 3, Moved: moved}
		directory.Page(1, asked.Observe(nil), epoch, q, time.Second,
			func(p *Page, failure error) { page, err = p, failure })
		return page, err
	}
	table := s.Table("ks", "t")
	page, err := list(table, 5, 5)
	if err != nil || len(page.Keys) != 2 || string(page.Keys[1]) != "b" || string(page.Last) != "c" || !page.More ||
		page.Scanned != 3 {
		t.Fatalf("%+v, %v", page, err)
	}
	q := d.asked
	if q.Table != table.StorageID || string(q.From) != "a" || string(q.To) != "c" || !q.Reversed || q.Limit != 7 ||
		q.Now != 3 {
		t.Errorf("storage was asked %+v", q)
	}
	if nodes := asked.Nodes(); !slices.Equal(nodes, []ring.NodeID{1}) {
		t.Errorf("the trace has the replicas %v", nodes)
	}
	if !q.Holds(0) || q.Holds(1) {
		t.Errorf("node 1 holds token 0: %v, token 1: %v", q.Holds(0), q.Holds(1))
	}
	var refusal *coordinator.NotReplica
	for _, epochs := range [][2]uint64{{4, 4}, {6, 6}} {
		if _, err := list(table, epochs[0], epochs[1]); !errors.As(err, &refusal) || refusal.Epoch != 5 {
			t.Errorf("planned at epoch %d, answered %v", epochs[0], err)
		}
	}
	if _, err := list(table, 6, 5); err != nil {
		t.Errorf("planned at a later epoch at which the ring had not moved: %v", err)
	}
	if _, err := list(s.TableByStorage(schema.PaxosTable), 5, 5); !errors.As(err, &refusal) {
		t.Errorf("a table of LocalStrategy was listed for another node: %v", err)
	}
	d.asked = nil
	request := appendPageRequest(nil, 5, &PageRequest{Table: table.StorageID, Limit: 7, Moved: 5})
	directory.transport.Request(1, messaging.VerbPartitions, request[:len(request)-1], time.Second,
		func(_ []byte, err error) {
			if err == nil || d.asked != nil {
				t.Errorf("a request that is cut off: %v, storage was asked %+v", err, d.asked)
			}
		})
	var failure *coordinator.ReplicaFailure
	if _, err := list(&schema.Table{StorageID: 1 << 20}, 5, 5); !errors.As(err, &failure) ||
		failure.Reason != coordinator.FailureIncompatibleSchema {
		t.Errorf("an unknown table: %v", err)
	}
}

func TestStoragePanicEndsRequest(t *testing.T) {
	directory, d, s := pair(t, guard.New(slog.New(slog.NewTextHandler(io.Discard, nil))))
	d.panics = true
	var got error
	q := &PageRequest{Table: s.Table("ks", "t").StorageID, Limit: 1, Moved: 5}
	directory.Page(1, nil, 5, q, time.Second, func(_ *Page, err error) { got = err })
	var failure *coordinator.ReplicaFailure
	if !errors.As(got, &failure) {
		t.Errorf("answered %v", got)
	}
}
