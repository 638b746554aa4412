package coordinator_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/batchlog"
	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/simulation/scenario"
)

// leavingView is a node's view, which changes to Leaving at some time.
type leavingView struct {
	*fakeView
	leaves atomic.Pointer[ring.Topology]
}

func (v *leavingView) Topology() *ring.Topology {
	if t := v.leaves.Load(); t != nil {
		return t
	}
	return v.fakeView.Topology()
}

// memoryStore contains a node's local keys.
type memoryStore struct {
	mu   sync.Mutex
	keys map[string][]byte
}

func (s *memoryStore) SetLocal(key, value []byte, _ bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[string(key)] = bytes.Clone(value)
	return nil
}

func (s *memoryStore) DeleteLocal(key []byte, _ bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, string(key))
	return nil
}

func (s *memoryStore) ScanLocal(prefix []byte, f func(key, value []byte) error) error {
	s.mu.Lock()
	var found [][2][]byte
	for k, v := range s.keys {
		if strings.HasPrefix(k, string(prefix)) {
			found = append(found, [2][]byte{[]byte(k), v})
		}
	}
	s.mu.Unlock()
	for _, x := range found {
		if err := f(x[0], x[1]); err != nil {
			return err
		}
	}
	return nil
}

// fickleHolder stores batches in a separate goroutine, and refuses some.
type fickleHolder struct {
	faultyReplica
	mu    sync.Mutex
	asked int
	kept  map[coordinator.RequestID]bool
}

func (h *fickleHolder) KeepBatch(id coordinator.RequestID, _ []byte, _ time.Duration, done func(error)) {
	h.goroutines.Go(func() {
		h.mu.Lock()
		h.asked++
		var err error
		if h.asked%7 == 0 {
			err = &coordinator.Overloaded{What: "this holder"}
		} else {
			h.kept[id] = true
		}
		h.mu.Unlock()
		done(err)
	})
}

func (h *fickleHolder) ForgetBatches([]coordinator.RequestID, time.Duration, func(error)) {}

// TestHandOverWhileBatchesCome decommissions a node while others send it batches: each acknowledged batch is on two
// other nodes when the handover has ended, and none is accepted after that.
func TestHandOverWhileBatchesCome(t *testing.T) {
	var holders []*fickleHolder
	view := &leavingView{fakeView: newFakeView(t, 4, 3, func(ring.NodeID) coordinator.Replica {
		h := &fickleHolder{kept: map[coordinator.RequestID]bool{}}
		holders = append(holders, h)
		return h
	})}
	c := scenario.NewParts(scenario.PartsOptions{Coordinator: coordinator.Options{View: view, Replicas: view,
		Clock: realClock{time.Now()}, LocalDatacenter: "dc1"},
		Store:   &memoryStore{keys: map[string][]byte{}},
		Batches: batchlog.Options{Limits: batchlog.Limits{Retry: time.Millisecond}}})
	defer c.Close()
	m := &row.Mutation{}
	m.Reset(view.table.StorageID, row.NewPartitionKey([]byte("k")))
	encoded := row.AppendMutation(wire.AppendInt64(wire.AppendInt64(nil, time.Now().UnixNano()), int64(time.Hour)), m)

	const clients, each = 8, 200
	acked := make([][]coordinator.RequestID, clients)
	var all sync.WaitGroup
	half, resume := make(chan bool), make(chan bool)
	for i := range clients {
		all.Go(func() {
			for n := range each {
				if i == 0 && n == each/2 { // later ones are refused
					half <- true
					<-resume
				}
				id := coordinator.RequestID{Node: ring.NodeID(2 + i%3), Incarnation: uint64(i), Sequence: uint64(n)}
				c.Batches.Keep(id, encoded, func(err error) {
					switch {
					case err == nil:
						acked[i] = append(acked[i], id)
					case !errors.Is(err, coordinator.ErrNotSent):
						t.Error(err)
					}
				})
			}
		})
	}
	<-half
	nodes := slices.Clone(view.topology.Nodes())
	self := *nodes[0]
	self.State = ring.Leaving
	nodes[0] = &self
	view.leaves.Store(ring.NewTopology(2, nodes))
	close(resume)
	handed := make(chan error, 1)
	c.Batches.HandOver(func(err error) { handed <- err })
	if err := <-handed; err != nil {
		t.Fatal(err)
	}
	if n := c.Batches.Held(); n > 0 {
		t.Errorf("%d batches are stored after the handover", n)
	}
	all.Wait()
	copies, taken := map[coordinator.RequestID]int{}, 0
	for _, h := range holders[1:] {
		h.goroutines.Wait()
		for id := range h.kept {
			copies[id]++
		}
	}
	for _, ids := range acked {
		taken += len(ids)
		for _, id := range ids {
			if copies[id] < 2 {
				t.Errorf("batch %v is with %d others", id, copies[id])
			}
		}
	}
	if n := c.Batches.Held(); n > 0 || taken < clients || taken == clients*each {
		t.Errorf("%d batches were accepted, %d of them after the handover", taken, n)
	}
}

// TestPartialBatchIsReplayed replays a batch with one remaining mutation on a node that is its only replica.
func TestPartialBatchIsReplayed(t *testing.T) {
	quick := &quickReplica{page: emptyPage()}
	view := newFakeView(t, 1, 1, func(ring.NodeID) coordinator.Replica { return quick })
	c := scenario.NewParts(scenario.PartsOptions{Coordinator: coordinator.Options{View: view, Replicas: view,
		Clock: realClock{time.Now()}, LocalDatacenter: "dc1"},
		Store:   &memoryStore{keys: map[string][]byte{}},
		Batches: batchlog.Options{Limits: batchlog.Limits{Retry: time.Hour}}})
	defer c.Close()
	m := &row.Mutation{}
	m.Reset(view.table.StorageID, row.NewPartitionKey([]byte("k")))
	encoded := row.AppendMutation(wire.AppendInt64(wire.AppendInt64(nil, time.Now().UnixNano()), 0), m)
	for n := range 20 {
		two := &coordinator.WriteRequest{Mutations: []*row.Mutation{m, m}, Consistency: ring.One,
			Type: coordinator.WriteBatch, Timeout: time.Second}
		c.Write(two, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
		c.Batches.Keep(coordinator.RequestID{Node: 1, Sequence: uint64(1000 + n)}, encoded, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
		for end := time.Now().Add(time.Minute); c.Batches.Held() > 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if k := c.Batches.Held(); k > 0 {
			t.Fatalf("%d batches are stored after they were applied", k)
		}
	}
}

// fullStore accepts only the first write.
type fullStore struct {
	memoryStore
	full bool
}

func (s *fullStore) SetLocal(key, value []byte, sync bool) error {
	if s.full {
		return errors.New("the disk is full")
	}
	s.full = true
	return s.memoryStore.SetLocal(key, value, sync)
}

// TestDuplicateBatchIsKept delivers the message to store a batch a second time, when the disk is full.
func TestDuplicateBatchIsKept(t *testing.T) {
	view := newFakeView(t, 1, 1, func(ring.NodeID) coordinator.Replica { return &quickReplica{page: emptyPage()} })
	c := scenario.NewParts(scenario.PartsOptions{Coordinator: coordinator.Options{View: view, Replicas: view,
		Clock: realClock{time.Now()}, LocalDatacenter: "dc1"},
		Store: &fullStore{memoryStore: memoryStore{keys: map[string][]byte{}}}})
	defer c.Close()
	m := &row.Mutation{}
	m.Reset(view.table.StorageID, row.NewPartitionKey([]byte("k")))
	encoded := row.AppendMutation(wire.AppendInt64(wire.AppendInt64(nil, time.Now().UnixNano()), int64(time.Hour)), m)
	var answers []error
	for range 2 {
		c.Batches.Keep(coordinator.RequestID{Node: 1, Sequence: 1000}, encoded,
			func(err error) { answers = append(answers, err) })
	}
	if answers[0] != nil || answers[1] == nil {
		t.Fatalf("the answers are %v", answers)
	}
	if n := c.Batches.Held(); n != 1 {
		t.Errorf("%d batches are stored, want one", n)
	}
}
