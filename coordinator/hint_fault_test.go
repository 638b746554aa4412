package coordinator_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/hints"
	"cqld/internal/await"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/simulation/scenario"
)

// failingStore is a store of hints whose disk fails in one way.
type failingStore struct {
	memoryStore
	failing sync.Mutex
	fails   string // "read" or "remove"; empty means that it works
}

var errHintDisk = errors.New("injected disk error")

func (s *failingStore) fail(what string) error {
	s.failing.Lock()
	defer s.failing.Unlock()
	if s.fails == what {
		return errHintDisk
	}
	return nil
}

func (s *failingStore) DeleteLocal(key []byte, sync bool) error {
	if err := s.fail("remove"); err != nil {
		return err
	}
	return s.memoryStore.DeleteLocal(key, sync)
}

func (s *failingStore) ScanLocal(prefix []byte, f func(key, value []byte) error) error {
	if bytes.HasPrefix(prefix, []byte("hint/")) && len(prefix) > len("hint/") { // not the scan at the start
		if err := s.fail("read"); err != nil {
			return err
		}
	}
	return s.memoryStore.ScanLocal(prefix, f)
}

// obedientReplica accepts everything.
type obedientReplica struct{ faultyReplica }

func (*obedientReplica) Apply(_ uint64, _ []*row.Mutation, _ time.Duration, done func(error)) {
	done(nil)
}

// TestHintReplayReportsFailures checks that a replay that the disk stops is reported once, with the node and the
// reason, that it continues when the disk works again, and that no hint is lost.
func TestHintReplayReportsFailures(t *testing.T) {
	for _, fails := range []string{"read", "remove"} {
		t.Run(fails, func(t *testing.T) {
			view := newFakeView(t, 4, 3, func(ring.NodeID) coordinator.Replica { return &obedientReplica{} })
			m := new(row.Mutation)
			m.Reset(view.table.StorageID, row.NewPartitionKey([]byte("k")))
			now := time.Now()
			record := wire.AppendInt64(wire.AppendInt64(nil, now.Add(time.Hour).Unix()), now.UnixNano())
			key := append([]byte("hint/"), binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 2), 7)...)
			keys := map[string][]byte{string(key): row.AppendMutation(record, m)}
			store := &failingStore{memoryStore: memoryStore{keys: keys}, fails: fails}
			var mu sync.Mutex
			var reported []string
			c := scenario.NewParts(scenario.PartsOptions{Coordinator: coordinator.Options{View: view, Replicas: view,
				Clock: realClock{now}, LocalDatacenter: "dc1",
				OnError: func(err error) {
					mu.Lock()
					defer mu.Unlock()
					reported = append(reported, err.Error())
				}}, Run: func(f func()) { go f() }, Store: store,
				Hints: hints.Options{Limits: hints.Limits{Retry: time.Millisecond}}})
			defer c.Close()
			await.Until(t, "the failure is reported", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(reported) > 0
			})
			time.Sleep(50 * time.Millisecond) // for more attempts
			if n := c.Hints.Pending(2); n != 1 {
				t.Errorf("%d records wait", n)
			}
			store.failing.Lock()
			store.fails = ""
			store.failing.Unlock()
			for end := time.Now().Add(time.Minute); c.Hints.Pending(2) > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the replay does not continue")
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if len(reported) != 1 || !strings.Contains(reported[0], "node 127.0.0.2 ") ||
				!strings.Contains(reported[0], errHintDisk.Error()) {
				t.Errorf("OnError was called with %q", reported)
			}
		})
	}
}
