//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

const (
	one    = 1
	quorum = 4
	// nodeLocal reads on the contacted node only, if its configuration has readsOneNode.
	nodeLocal = 11
)

// readsOneNode is the line of a configuration that allows nodeLocal.
const readsOneNode = "allow_nodelocal_consistency: true"

// TestCqlsh executes the statements of the README with cqlsh on every node.
func TestCqlsh(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	cqlsh := filepath.Join(root, ".tools/python/bin/cqlsh")
	if !exists(cqlsh) {
		missing(t, "cqlsh", fmt.Sprintf(installHint, "python"))
	}
	ring := sharedRing(t)
	node := 0
	run := func(statements string) string {
		t.Helper()
		host, port, _ := strings.Cut(ring.Servers[node%4].Address, ":")
		node++
		cmd := exec.Command(cqlsh, host, port, "--no-color", "--request-timeout=20", "-e",
			"CONSISTENCY QUORUM; "+statements)
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "WARNING") {
			t.Fatalf("%s\n%v\n%s", statements, err, out)
		}
		return string(out)
	}
	run("DROP KEYSPACE IF EXISTS uprofile")
	run("CREATE KEYSPACE uprofile WITH replication = {'class': 'NetworkTopologyStrategy'}")
	if out := run("DESCRIBE KEYSPACE uprofile"); !strings.Contains(out, "'datacenter1': '4'") {
		t.Errorf("a keyspace without a replication factor is not at 4:\n%s", out)
	}
	run(`USE uprofile; CREATE TABLE user (user text, id int, message text, PRIMARY KEY (user, id));
		CREATE TABLE person (firstname text, lastname text, id int, PRIMARY KEY ((firstname, lastname), id));
		CREATE TABLE event (id uuid PRIMARY KEY, what text)`)
	inserts := "USE uprofile; "
	for _, values := range []string{"'theo', 1, 'hello'", "'theo', 2, 'second'", "'anna', 3, 'third'",
		"'anna', 1, 'first'", "'jonas', 5, 'hi'", "'Ümit', 1, 'merhaba'"} {
		inserts += "INSERT INTO user (user, id, message) VALUES (" + values + "); "
	}
	run(strings.TrimSuffix(inserts, "; "))
	out := run("SELECT token(user), user, id FROM uprofile.user")
	last := -1
	for _, row := range recordedTokens(t) {
		at := regexp.MustCompile(row).FindStringIndex(out)
		if at == nil || at[0] < last {
			t.Fatalf("no row %q, or out of order:\n%s", row, out)
		}
		last = at[0]
	}
	if out := run("TRACING ON; SELECT * FROM uprofile.user WHERE user = 'theo'"); !strings.Contains(out,
		"Request complete") {
		t.Errorf("no trace:\n%s", out)
	}
	run("DESCRIBE KEYSPACES; DESCRIBE TABLES; DESCRIBE CLUSTER; DESCRIBE SCHEMA; DESCRIBE TABLE uprofile.user; SHOW " +
		"VERSION; SHOW HOST")
	run("DROP KEYSPACE uprofile")
}

// recordedTokens returns patterns of the rows that Cassandra returned for the same statement, in its order.
func recordedTokens(t *testing.T) []string {
	b, err := os.ReadFile("testdata/cql/walk.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "SELECT token(user), user, id FROM user\n----\n")
	answer, _, _ := strings.Cut(rest, "\n(")
	var rows []string
	for _, line := range strings.Split(answer, "\n")[1:] {
		f := strings.Split(strings.ReplaceAll(line, "'", ""), " | ")
		rows = append(rows, fmt.Sprintf(`(?m)^\s*%s \|\s+%s \|\s+%s\s*$`, f[0], regexp.QuoteMeta(f[1]), f[2]))
	}
	if len(rows) != 6 {
		t.Fatalf("the transcript has %d rows", len(rows))
	}
	return rows
}

// writer writes increasing ids at QUORUM through some nodes and records the acknowledged ones.
type writer struct {
	mu    sync.Mutex
	acked []int
	fails []failure
	stop  chan struct{}
	wg    sync.WaitGroup
}

type failure struct {
	at  time.Time
	err error
}

func startWriter(addresses ...string) *writer {
	w := &writer{stop: make(chan struct{})}
	for i, address := range addresses {
		w.wg.Go(func() { w.write(address, i, len(addresses)) })
	}
	return w
}

func (w *writer) write(address string, id, step int) {
	c, err := cqlclient.Dial(address, 4)
	if err != nil {
		w.add(id, err)
		return
	}
	defer c.Close()
	for ; ; id += step {
		select {
		case <-w.stop:
			return
		case <-time.After(time.Duration(1+rand.IntN(3)) * time.Millisecond):
		}
		a, err := c.Query(fmt.Sprintf("INSERT INTO walk.t (id, v) VALUES (%d, 'v')", id),
			cqlclient.Options{Consistency: quorum})
		if err == nil && a.Err != nil {
			err = a.Err
		}
		w.add(id, err)
		if err != nil && a == nil {
			return
		}
	}
}

func (w *writer) add(id int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.fails = append(w.fails, failure{time.Now(), err})
	} else {
		w.acked = append(w.acked, id)
	}
}

func (w *writer) end() []int {
	close(w.stop)
	w.wg.Wait()
	return w.acked
}

// TestKillWalk kills one node under QUORUM load and restarts it, then kills two.
func TestKillWalk(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 4, YAML: []string{readsOneNode}})
	nodes := ring.Servers
	ask(t, nodes[0].Address, "CREATE KEYSPACE walk WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': 4}", "CREATE TABLE walk.t (id int PRIMARY KEY, v text)")

	w := startWriter(nodes[0].Address, nodes[2].Address, nodes[3].Address)
	time.Sleep(time.Second)
	listener, err := cqlclient.Dial(nodes[0].Address, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := listener.Register("STATUS_CHANGE"); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	nodes[1].Kill()
	event, err := listener.NextEvent(detection)
	if err != nil || strings.Join(event, " ") != "STATUS_CHANGE DOWN "+nodes[1].Address {
		t.Errorf("after the crash: %v %v", event, err)
	}
	t.Logf("detected as dead after %v", time.Since(killed))
	time.Sleep(detection + 3*time.Second - time.Since(killed))
	if err := nodes[1].Start(); err != nil {
		t.Fatal(err)
	}
	if err := ring.WaitAgreed(ringStart); err != nil {
		t.Fatal(err)
	}
	if event, err = listener.NextEvent(5 * time.Second); err != nil ||
		strings.Join(event, " ") != "STATUS_CHANGE UP "+nodes[1].Address {
		t.Errorf("after the start: %v %v", event, err)
	}
	time.Sleep(2 * time.Second)
	acked := w.end()
	for _, f := range w.fails {
		if f.at.After(killed.Add(detection)) {
			t.Errorf("%v after the crash: %v", f.at.Sub(killed), f.err)
		}
	}
	t.Logf("%d writes acknowledged, %d failed before the crash was seen", len(acked), len(w.fails))
	if len(acked) < 300 {
		t.Errorf("only %d writes were acknowledged", len(acked))
	}
	for _, s := range nodes {
		if n := present(t, s.Address, quorum, acked); n != len(acked) {
			t.Errorf("%s gives %d of %d acknowledged rows at QUORUM", s.Address, n, len(acked))
		}
	}
	// The hints were delivered: the node that was down has every row itself.
	n := 0
	for end := time.Now().Add(30 * time.Second); n < len(acked) &&
		time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		n = present(t, nodes[1].Address, nodeLocal, acked)
	}
	if n != len(acked) {
		t.Errorf("the node that was down has %d of %d rows after half a minute", n, len(acked))
	}
	twoDead(t, ring)
}

// twoDead kills two nodes of four: QUORUM of four is refused at once, ONE succeeds.
func twoDead(t *testing.T, ring *process.Ring) {
	ring.Servers[1].Kill()
	ring.Servers[2].Kill()
	time.Sleep(detection)
	c, err := cqlclient.Dial(ring.Servers[0].Address, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, s := range []string{"INSERT INTO walk.t (id, v) VALUES (-1, 'x')", "SELECT * FROM walk.t WHERE id = -1"} {
		began := time.Now()
		a, err := c.Query(s, cqlclient.Options{Consistency: quorum})
		if err != nil {
			t.Fatal(err)
		}
		if a.Err == nil || a.Err.Code != cqlclient.CodeUnavailable ||
			a.Err.Fields != "consistency=4 required=3 alive=2" {
			t.Errorf("%s at QUORUM: %v", s, a.Err)
		}
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("%s was refused after %v only", s, took)
		}
		if a, err = c.Query(s, cqlclient.Options{Consistency: one}); err != nil || a.Err != nil {
			t.Errorf("%s at ONE: %v %v", s, err, a.Err)
		}
	}
}

func ask(t *testing.T, address string, statements ...string) {
	t.Helper()
	if err := process.Ask(address, statements...); err != nil {
		t.Fatal(err)
	}
}

// present counts how many of the ids a node returns at a consistency level.
func present(t *testing.T, address string, consistency uint16, ids []int) int {
	t.Helper()
	c, err := cqlclient.Dial(address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n := 0
	for len(ids) > 0 {
		some := ids[:min(len(ids), 100)]
		ids = ids[len(some):]
		list := strings.Trim(strings.ReplaceAll(fmt.Sprint(some), " ", ", "), "[]")
		a, err := c.Query("SELECT id FROM walk.t WHERE id IN ("+list+")", cqlclient.Options{Consistency: consistency})
		if err != nil || a.Err != nil {
			t.Fatalf("%s: %v %v", address, err, a)
		}
		n += len(a.Rows)
	}
	return n
}

// TestCrashKeepsAcknowledgedWrites kills a single node while it writes.
func TestCrashKeepsAcknowledgedWrites(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 1})
	s := ring.Servers[0]
	ask(t, s.Address, "CREATE KEYSPACE walk WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE walk.t (id int PRIMARY KEY, v text)")
	for round := range 3 {
		w := startWriter(s.Address, s.Address)
		time.Sleep(time.Second)
		s.Kill()
		acked := w.end()
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitAnswer(ringStart); err != nil {
			t.Fatal(err)
		}
		if n := present(t, s.Address, one, acked); n != len(acked) || n == 0 {
			t.Errorf("crash %d: %d of %d acknowledged rows are there", round+1, n, len(acked))
		}
	}
}

// TestStartIsQuick checks the start times that the benchmark states, with a margin for a busy machine.
func TestStartIsQuick(t *testing.T) {
	binary, dir := cqld(t)
	for _, c := range []struct {
		nodes int
		limit time.Duration
	}{{1, 3 * time.Second}, {4, 15 * time.Second}} {
		r, err := process.NewRing(binary, filepath.Join(dir, fmt.Sprint(t.Name(), c.nodes)),
			process.Options{Nodes: c.nodes})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := r.Start(ringStart); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		r.Stop()
		t.Logf("%d nodes: %v", c.nodes, took)
		if took > c.limit {
			t.Errorf("%d nodes ready after %v, want %v", c.nodes, took, c.limit)
		}
	}
}
