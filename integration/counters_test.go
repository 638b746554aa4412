//go:build integration

package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// Error codes of the native protocol.
const (
	codeOverloaded = 0x1001
	counterBatch   = 2
)

// askQuorum sends one statement at QUORUM.
func askQuorum(c *cqlclient.Conn, text string) (*cqlclient.Answer, error) {
	a, err := c.Query(text, cqlclient.Options{Consistency: quorum})
	if err == nil && a.Err != nil {
		err = a.Err
	}
	return a, err
}

func mustAsk(t *testing.T, c *cqlclient.Conn, text string) *cqlclient.Answer {
	t.Helper()
	a, err := askQuorum(c, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return a
}

func dialServer(t *testing.T, s *process.Server) *cqlclient.Conn {
	t.Helper()
	c, err := cqlclient.Dial(s.Address, 5)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func bigint(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

// TestCountersOfManyCoordinators makes clients of all nodes add to one counter concurrently: no addition is lost or
// counted twice, and every node reads the same value at QUORUM.
func TestCountersOfManyCoordinators(t *testing.T) {
	ring := sharedRing(t)
	c := dialServer(t, ring.Servers[0])
	mustAsk(t, c, "CREATE KEYSPACE counted WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	mustAsk(t, c, "CREATE TABLE counted.hits (k int, r int, n counter, total counter static, PRIMARY KEY (k, r))")
	const clients, each = 12, 50
	var running sync.WaitGroup
	for i := range clients {
		conn := dialServer(t, ring.Servers[i%len(ring.Servers)])
		running.Go(func() {
			for range each {
				if _, err := askQuorum(conn, "UPDATE counted.hits SET n = n + 3, total = total + 1 WHERE k = 1 AND "+
					"r = 1"); err != nil {
					t.Error(err)
				}
				update := cqlclient.Statement{Text: "UPDATE counted.hits SET n = n - 1 WHERE k = 1 AND r = 1"}
				other := cqlclient.Statement{Text: "UPDATE counted.hits SET n = n + 1 WHERE k = 2 AND r = 1"}
				a, err := conn.Batch(counterBatch, []cqlclient.Statement{update, other},
					cqlclient.Options{Consistency: quorum})
				if err == nil && a.Err != nil {
					err = a.Err
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	for _, s := range ring.Servers {
		a := mustAsk(t, dialServer(t, s), "SELECT n, total FROM counted.hits WHERE k IN (1, 2)")
		got := []int64{bigint(a.Rows[0][0]), bigint(a.Rows[0][1]), bigint(a.Rows[1][0])}
		want := []int64{2 * clients * each, clients * each, clients * each}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s reads %v, want %v", s.Address, got, want)
		}
	}
}

// tally contains the outcomes of the clients' requests.
type tally struct {
	sync.Mutex
	acked, unknown int64
	batches        map[int]bool // by number: acknowledged
}

// note records an outcome: acknowledged without an error, not applied if refused, otherwise unknown.
func (y *tally) note(err error) {
	y.Lock()
	defer y.Unlock()
	var e *cqlclient.Error
	switch {
	case err == nil:
		y.acked++
	case errors.As(err, &e) && (e.Code == cqlclient.CodeUnavailable || e.Code == codeOverloaded):
	default:
		y.unknown++
	}
}

// killedFor is the time during which nodes are killed.
const killedFor = 12 * time.Second

// TestCountersAndBatchesWhileNodesAreKilled adds to a counter and writes logged batches to partitions with different
// replicas while one node after the other is killed. At the end, the counter is between the numbers of acknowledged and
// attempted additions, and each batch exists completely or not at all.
func TestCountersAndBatchesWhileNodesAreKilled(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 4})
	c := dialServer(t, ring.Servers[0])
	mustAsk(t, c, "CREATE KEYSPACE killed WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	mustAsk(t, c, "CREATE TABLE killed.hits (k int PRIMARY KEY, n counter)")
	mustAsk(t, c, "CREATE TABLE killed.parts (k int, b int, PRIMARY KEY (k, b))")
	y := &tally{batches: map[int]bool{}}
	end := time.Now().Add(killedFor)
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() { y.work(ring, i, end) })
	}
	for i := 0; time.Now().Before(end); i++ {
		time.Sleep(700 * time.Millisecond)
		s := ring.Servers[i%len(ring.Servers)]
		s.Kill()
		time.Sleep(300 * time.Millisecond)
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	running.Wait()
	if err := ring.WaitAgreed(ringStart); err != nil {
		t.Fatal(err)
	}
	c = dialServer(t, ring.Servers[1])
	n := int64(0)
	if a := mustAsk(t, c, "SELECT n FROM killed.hits WHERE k = 1"); len(a.Rows) > 0 {
		n = bigint(a.Rows[0][0])
	}
	if n < y.acked || n > y.acked+y.unknown {
		t.Errorf("the counter is %d, with %d acknowledged and %d unknown", n, y.acked, y.unknown)
	}
	t.Logf("%d additions acknowledged, %d unknown, %d batches", y.acked, y.unknown, len(y.batches))
	if y.acked < 100 || len(y.batches) < 100 {
		t.Error("too few operations")
	}
	var wrong string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		if wrong = y.partial(t, c); wrong == "" {
			return
		}
	}
	t.Error(wrong)
}

// batchParts is the number of partitions of each batch.
const batchParts = 3

// work alternates between additions and batches, at any node that answers.
func (y *tally) work(ring *process.Ring, client int, end time.Time) {
	var conn *cqlclient.Conn
	for i := client; time.Now().Before(end); i += 8 {
		if conn == nil {
			var err error
			if conn, err = cqlclient.Dial(ring.Servers[i/8%len(ring.Servers)].Address, 5); err != nil {
				conn = nil
				time.Sleep(20 * time.Millisecond)
				continue
			}
		}
		var err error
		if client%2 == 0 {
			_, err = askQuorum(conn, "UPDATE killed.hits SET n = n + 1 WHERE k = 1")
			y.note(err)
		} else {
			text := "BEGIN BATCH "
			for p := range batchParts {
				text += fmt.Sprintf("INSERT INTO killed.parts (k, b) VALUES (%d, %d); ", p, i)
			}
			_, err = askQuorum(conn, text+"APPLY BATCH")
			y.Lock()
			y.batches[i] = err == nil
			y.Unlock()
		}
		var e *cqlclient.Error
		if err != nil && !errors.As(err, &e) {
			conn.Close()
			conn = nil
		}
	}
	if conn != nil {
		conn.Close()
	}
}

// partial describes a batch that exists in part, or that is lost; "" means none.
func (y *tally) partial(t *testing.T, c *cqlclient.Conn) string {
	t.Helper()
	found := map[int]int{}
	for p := range batchParts {
		for _, r := range mustAsk(t, c, fmt.Sprintf("SELECT b FROM killed.parts WHERE k = %d", p)).Rows {
			found[int(binary.BigEndian.Uint32(r[0]))]++
		}
	}
	for i, acked := range y.batches {
		if n := found[i]; n != batchParts && (n != 0 || acked) {
			return fmt.Sprintf("batch %d (acknowledged: %t) is in %d of %d partitions", i, acked, n, batchParts)
		}
	}
	return ""
}
