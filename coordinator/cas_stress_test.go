package coordinator_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
)

// The load of TestHotPartitionsFailByCause; 10^5 changes take 40 s of processor time.
var (
	casChanges    = flag.Int("cas-changes", 1500, "number of conditional changes")
	casClients    = flag.Int("cas-clients", 64, "concurrent clients")
	casPartitions = flag.Int("cas-partitions", 4, "partitions that all clients change")
	casContention = flag.Duration("cas-contention", 20*time.Second,
		"contention timeout; the request timeout is twice as long")
)

// stressed counts the outcomes of the changes of a stress test.
type stressed struct {
	sync.Mutex
	failed  int
	short   []error // time-outs with fewer responses than a quorum
	longest time.Duration
}

func (s *stressed) end(err error, took time.Duration) {
	s.Lock()
	defer s.Unlock()
	s.longest = max(s.longest, took)
	if err == nil {
		return
	}
	s.failed++
	var timeout *coordinator.WriteTimeout
	if !errors.As(err, &timeout) || timeout.Received < timeout.BlockFor {
		s.short = append(s.short, err)
	}
}

// TestHotPartitionsFailByCause changes a few partitions through the four coordinators of a ring, with fsync. All nodes
// are up, so a change may fail only because others outvoted it: its error has the responses of a quorum, and each
// failure is counted.
func TestHotPartitionsFailByCause(t *testing.T) {
	nodes := newBenchRing(t, 4)
	var left atomic.Int64
	left.Store(int64(*casChanges))
	var s stressed
	var running sync.WaitGroup
	for client := range *casClients {
		running.Go(func() {
			for left.Add(-1) >= 0 {
				began, done := time.Now(), make(chan error, 1)
				nodes[client%len(nodes)].overwrite(rand.IntN(*casPartitions), rand.IntN(64),
					func(err error) { done <- err })
				s.end(<-done, time.Since(began))
			}
		})
	}
	running.Wait()
	var counted uint64
	for _, n := range nodes {
		stats := n.proposer.Stats()
		for cause := range paxos.Causes {
			counted += stats.Failures[cause]
		}
		t.Logf("node %d: %d rounds, %d contentions, failures %v, times %v", n.id, stats.Rounds, stats.Contentions,
			stats.Failures, stats.Times)
	}
	t.Logf("%d changes, %d failed, longest %v", *casChanges, s.failed, s.longest)
	if len(s.short) > 0 {
		t.Errorf("%d changes fail with all nodes up, first: %v", len(s.short), s.short[0])
	}
	if counted != uint64(s.failed) {
		t.Errorf("%d failures are counted, %d changes failed", counted, s.failed)
	}
}

// overwrite writes a row whatever it contains, as a conditional change.
func (n *benchNode) overwrite(partition, clustering int, done func(error)) {
	table := n.schema.Table("ks", "t")
	key, exact := row.NewPartitionKey(fmt.Appendf(nil, "hot%d", partition)), fmt.Appendf(nil, "%03d", clustering)
	n.proposer.CAS(&paxos.CASRequest{
		Command: &row.ReadCommand{Table: table.StorageID, Key: key, Now: 1, Slices: []row.Slice{row.ExactRow(exact)}},
		Serial:  ring.Serial, Consistency: ring.Quorum, Contention: *casContention, Timeout: 2 * *casContention,
		Update: func(_ []byte, timestamp int64) (*row.Mutation, bool, error) {
			m, r := new(row.Mutation), row.NewRow()
			m.Reset(table.StorageID, key)
			r.Clustering, r.Liveness.Timestamp = exact, timestamp
			r.Cells = append(r.Cells, row.Cell{Column: table.Column("v").ID, Timestamp: timestamp, Value: benchText})
			m.AddRow(r)
			return m, true, nil
		},
	}, func(applied bool, _ []byte, err error) {
		if err == nil && !applied {
			err = errors.New("an unconditional change was not applied")
		}
		done(err)
	})
}
