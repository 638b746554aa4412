//go:build integration

package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// recoveryLimit is the time within which the rest of a ring must be changeable after the recovery began.
const recoveryLimit = time.Minute

// TestRecoveryOfTheMetadata starts two data centers of three nodes and destroys the older one, which has the majority
// of the voters. The others are stopped, recovered and started: within a minute they serve, change the schema and admit
// a node, and every write that they acknowledged at LOCAL_QUORUM is there. Nodes with data from before the recovery are
// refused, a lost one that returns and a survivor that did not take part.
func TestRecoveryOfTheMetadata(t *testing.T) {
	t.Parallel()
	binary, dir := cqld(t)
	dir = filepath.Join(dir, t.Name())
	ring, survivors := twoDatacenters(t, binary, dir)
	const rows = 200
	writeAll(t, survivors[0], rows)
	lost := ring.Servers[:3]
	kept := filepath.Join(dir, "old")
	for _, s := range lost {
		s.Kill()
	}
	// One of the lost nodes returns later with its old data.
	copyTree(t, filepath.Join(lost[0].Dir, "data"), kept)
	for _, s := range lost {
		if err := os.RemoveAll(filepath.Join(s.Dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range survivors {
		s.Stop()
	}

	began := time.Now()
	file := filepath.Join(dir, "recovery.json")
	// In two steps, as on several machines: the newest survivor first, which may be any of them.
	out := mustRunCommand(t, "", binary, slices.Concat([]string{"recover", "inspect"}, dataDirs(survivors))...)
	newest := strings.TrimSpace(out[strings.LastIndex(out, "newest: ")+len("newest: "):])
	t.Log(out)
	at := slices.IndexFunc(survivors, func(s *process.Server) bool { return filepath.Join(s.Dir, "data") == newest })
	args := reportsWithout(t, binary, dir, survivors, at, file)
	if out, err := runCommand("no\n", binary, args...); err == nil || !strings.Contains(out, "nothing was changed") {
		t.Fatalf("not confirmed: %v\n%s", err, out)
	}
	t.Log(mustRunCommand(t, "recover\n", binary, args...))
	for i, s := range survivors {
		if i != at && i != (at+1)%3 {
			mustRunCommand(t, "", binary, "recover", "join", "--data-dir", filepath.Join(s.Dir, "data"), "--from", file)
		}
	}
	late := survivors[(at+1)%3]
	early := slices.DeleteFunc(slices.Clone(survivors), func(s *process.Server) bool { return s == late })
	for _, s := range early {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the survivors serve", func() bool { return answersPlainly(early[0]) && answersPlainly(early[1]) })
	alter(t, early[0], "CREATE TABLE ks.after (k int PRIMARY KEY, v int)")
	t.Logf("schema changed after %v", time.Since(began))

	// A survivor that did not take part is refused, and logs what to do. Afterwards it takes part.
	refused(t, late, "cqld recover join")
	mustRunCommand(t, "", binary, "recover", "join", "--data-dir", filepath.Join(late.Dir, "data"), "--from", file)
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the last survivor serves", func() bool { return answersPlainly(late) })

	joins := ring.Spare[0]
	joins.AddFlags("--seeds", internode(t, early[0]))
	if err := joins.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "a new node serves", func() bool { return answersPlainly(joins) })
	if took := time.Since(began); took > recoveryLimit {
		t.Errorf("the ring was changeable after %v", took)
	} else {
		t.Logf("a node joined after %v", took)
	}
	await(t, "the lost nodes are removed", func() bool {
		state := stateOf(t, early[0])
		return state.nodes == 4 && state.operations == 0
	})
	t.Logf("the lost nodes were removed after %v", time.Since(began))
	readAll(t, late, rows)
	readAll(t, joins, rows)
	alter(t, joins, "ALTER KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'dc2': 3}",
		"DROP TABLE ks.after")

	// A lost node with its old data is refused.
	copyTree(t, kept, filepath.Join(lost[0].Dir, "data"))
	refused(t, lost[0], "continues without this node since recovery")
	if answersPlainly(lost[0]) {
		t.Error("a lost node serves its old data")
	}
	readAll(t, early[1], rows)
}

// TestRecoveryFromOneNode recovers a ring of three nodes, which encrypt their data, from a single one.
func TestRecoveryFromOneNode(t *testing.T) {
	t.Parallel()
	binary, dir := cqld(t)
	key := storeKeyFile(t, storeKey(1))
	ring, err := process.NewRing(binary, filepath.Join(dir, t.Name()), process.Options{Nodes: 3,
		YAML: []string{"encryption_key_file: " + key}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	if err := ring.Start(lossStep); err != nil {
		t.Fatal(err)
	}
	alter(t, ring.Servers[0], "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': 3}", "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	last := ring.Servers[2]
	for k := range 50 {
		queryAt(t, last, fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, %d)", k, k), allReplicas)
	}
	for _, s := range ring.Servers[:2] {
		s.Kill()
	}
	last.Stop()
	data := filepath.Join(last.Dir, "data")
	file := filepath.Join(last.Dir, "recovery.json")
	start := []string{"recover", "start", "--yes", "--data-dir", data, "--file", file}
	if out, err := runCommand("", binary, start...); err == nil || !strings.Contains(out, "no key is configured") {
		t.Errorf("a recovery without the key: %v\n%s", err, out)
	}
	// The command cannot be repeated with its file: all survivors have taken part.
	start = append(start, "--encryption-key-file", key)
	t.Log(mustRunCommand(t, "", binary, start...))
	if out, err := runCommand("", binary, start...); err == nil {
		t.Errorf("a second recovery with the file of the first:\n%s", out)
	}
	if err := last.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the survivor serves", func() bool { return answersPlainly(last) })
	alter(t, last, "CREATE TABLE ks.after (k int PRIMARY KEY)")
	await(t, "the lost nodes are removed", func() bool {
		state := stateOf(t, last)
		return state.nodes == 1 && state.operations == 0
	})
	if r := queryAt(t, last, "SELECT k FROM ks.t", one); len(r.Rows) != 50 {
		t.Errorf("%d rows", len(r.Rows))
	}
}

// twoDatacenters starts three nodes in dc1, and then three in dc2, and prepares a further one for dc2.
func twoDatacenters(t *testing.T, binary, dir string) (ring *process.Ring, dc2 []*process.Server) {
	t.Helper()
	ring, err := process.NewRing(binary, dir, process.Options{Nodes: 6, Spare: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	nodes := slices.Concat(ring.Servers, ring.Spare)
	seeds := internode(t, nodes[0]) + "," + internode(t, nodes[3])
	for i, s := range nodes {
		dc := "dc1"
		if i >= 3 {
			dc = "dc2"
			s.AddFlags("--seeds", seeds)
		}
		if err := s.Configure("datacenter: " + dc); err != nil {
			t.Fatal(err)
		}
	}
	startInTurn(t, ring.Servers, answersPlainly)
	if err := ring.WaitAgreed(lossStep); err != nil {
		t.Fatal(err)
	}
	awaitVoters(t, ring.Servers[0], []int{2, 3}, "dc1", "dc2")
	alter(t, ring.Servers[0], "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3, "+
		"'dc2': 3}", "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	return ring, ring.Servers[3:]
}

// reportsWithout writes the reports of all survivors but one, and returns the arguments that start a recovery on it.
func reportsWithout(t *testing.T, binary, dir string, survivors []*process.Server, at int, file string) []string {
	t.Helper()
	args := []string{"recover", "start", "--data-dir", filepath.Join(survivors[at].Dir, "data"), "--file", file}
	for i, s := range survivors {
		if i == at {
			continue
		}
		report := filepath.Join(dir, fmt.Sprintf("report%d.json", i))
		mustRunCommand(t, "", binary, "recover", "inspect", "--data-dir", filepath.Join(s.Dir, "data"), "--output",
			report)
		args = append(args, "--report", report)
	}
	return args
}

// dataDirs returns the flags that name the data directories of servers.
func dataDirs(servers []*process.Server) (args []string) {
	for _, s := range servers {
		args = append(args, "--data-dir", filepath.Join(s.Dir, "data"))
	}
	return args
}

// refused starts a server and waits until it stops because the other nodes refuse it, with the text in its log.
func refused(t *testing.T, s *process.Server, text string) {
	t.Helper()
	before := len(s.Log())
	if err := s.Start(); err == nil {
		await(t, "the node stops", func() bool { return !s.Running() })
	}
	if log := s.Log(); !strings.Contains(log[min(before, len(log)):], text) {
		t.Errorf("the log of a refused node does not contain %q:\n%s", text, log)
	}
}

// writeAll inserts rows at LOCAL_QUORUM, and readAll compares them.
func writeAll(t *testing.T, s *process.Server, rows int) {
	t.Helper()
	for k := range rows {
		queryAt(t, s, fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, %d)", k, 2*k), localQuorum)
	}
}

func readAll(t *testing.T, s *process.Server, rows int) {
	t.Helper()
	r := queryAt(t, s, "SELECT k, v FROM ks.t", localQuorum)
	if len(r.Rows) != rows {
		t.Errorf("%d rows of %d at LOCAL_QUORUM", len(r.Rows), rows)
	}
	for _, row := range r.Rows {
		if k, v := integer(row[0]), integer(row[1]); v != 2*k {
			t.Errorf("key %d has the value %d", k, v)
		}
	}
}

// alter executes statements on a server of a ring without roles, and queryAt one statement at a level.
func alter(t *testing.T, s *process.Server, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		queryAt(t, s, statement, one)
	}
}

func queryAt(t *testing.T, s *process.Server, statement string, level uint16) *cqlclient.Answer {
	t.Helper()
	c, err := cqlclient.Dial(s.Address, 4)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Log())
	}
	defer c.Close()
	r, err := c.Query(statement, cqlclient.Options{Consistency: level})
	if err != nil || r.Err != nil {
		t.Fatalf("%s at %s: %+v, %v\n%s", statement, s.Address, r, err, s.Log())
	}
	return r
}

func answersPlainly(s *process.Server) bool {
	c, err := cqlclient.Dial(s.Address, 4)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// runCommand executes a command with a standard input, and returns its output.
func runCommand(in, binary string, args ...string) (string, error) {
	c := exec.Command(binary, args...)
	c.Stdin = strings.NewReader(in)
	out, err := c.CombinedOutput()
	return string(out), err
}

func mustRunCommand(t *testing.T, in, binary string, args ...string) string {
	t.Helper()
	out, err := runCommand(in, binary, args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// copyTree copies the files of a directory, without the socket of a process that was killed.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(from, "control.sock")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
