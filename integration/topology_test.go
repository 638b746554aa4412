//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// operationLimit bounds the duration of a change of the ring with little data.
const operationLimit = 90 * time.Second

// ctl executes "cqld ctl" at a server and returns its output.
func ctl(t *testing.T, s *process.Server, args ...string) (string, error) {
	t.Helper()
	binary, _ := cqld(t)
	cmd := exec.Command(binary, append([]string{"ctl", "--data-dir", filepath.Join(s.Dir, "data")}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func mustCtl(t *testing.T, s *process.Server, args ...string) string {
	t.Helper()
	out, err := ctl(t, s, args...)
	if err != nil {
		t.Fatalf("ctl %s: %v\n%s\n%s", strings.Join(args, " "), err, out, s.Log())
	}
	return out
}

// ringState contains numbers from "ctl status --json" and "ctl operations --json".
type ringState struct{ nodes, operations int }

func stateOf(t *testing.T, s *process.Server) (state ringState) {
	t.Helper()
	// The members are read first. A node that is being removed does not count as normal: if its operation began between
	// the two, the removal would seem to be complete.
	var status struct{ Members []struct{ State string } }
	if err := json.Unmarshal([]byte(mustCtl(t, s, "status", "--json")), &status); err != nil {
		t.Fatal(err)
	}
	var operations struct{ Operations []any }
	if err := json.Unmarshal([]byte(mustCtl(t, s, "operations", "--json")), &operations); err != nil {
		t.Fatal(err)
	}
	for _, n := range status.Members {
		if strings.HasSuffix(n.State, "N") || strings.EqualFold(n.State, "normal") {
			state.nodes++
		}
	}
	state.operations = len(operations.Operations)
	return state
}

// waitRing waits until a server sees a number of nodes and no change in progress.
func waitRing(t *testing.T, s *process.Server, nodes int) {
	t.Helper()
	var state ringState
	for end := time.Now().Add(operationLimit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if state = stateOf(t, s); state == (ringState{nodes: nodes}) {
			return
		}
	}
	t.Fatalf("%+v, want %d nodes\n%s\n%s", state, nodes, mustCtl(t, s, "status"), mustCtl(t, s, "operations"))
}

// TestTheRingGrowsAndShrinksUnderLoad grows a ring from four nodes to six and shrinks it again while rows are written.
func TestTheRingGrowsAndShrinksUnderLoad(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 4, Spare: 2})
	w := startWorkload(t, strings.Split(ring.Addresses(), ","), "grown", 2)
	watchers, unwatch := watchRing(t, ring.Addresses())
	time.Sleep(time.Second)
	began := time.Now()
	for i, s := range ring.Spare {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitAnswer(operationLimit); err != nil {
			t.Fatal(err)
		}
		waitRing(t, ring.Servers[0], 5+i)
		t.Logf("%d nodes after %v", 5+i, time.Since(began))
	}
	watchers.await(t, "6 96")
	// The last node that joined and one of the first leave.
	for i, s := range []*process.Server{ring.Spare[1], ring.Servers[3]} {
		if s == ring.Servers[3] {
			w.leave(s.Address)
		}
		mustCtl(t, s, "decommission")
		waitRing(t, ring.Servers[0], 5-i)
		t.Logf("%d nodes after %v", 5-i, time.Since(began))
		s.Stop()
	}
	watchers.await(t, "4 64")
	unwatch()
	w.stop()
	for _, o := range w.failures(func(o outcome) bool { return false }) {
		t.Errorf("%v after the start a request to %s failed: %v", o.at.Sub(began), o.address, o.err)
	}
	t.Logf("99 of 100 requests took at most %v, the longest gap was %v", w.quantile(began, time.Now(), 0.99),
		w.gap(began, time.Now().Add(-time.Second)))
	for _, s := range []*process.Server{ring.Servers[0], ring.Spare[0]} {
		w.readBack(t, s.Address)
	}
}

// watchers are drivers that print their view of the ring.
type watchers []*load

// watchRing starts the drivers; stop ends them.
func watchRing(t *testing.T, addresses string) (all watchers, stop func()) {
	t.Helper()
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	var ready, ended sync.WaitGroup
	for _, d := range drivers(root) {
		if d.name != "go-gocql" && d.name != "go-apache" && d.name != "python" {
			continue
		}
		if err := d.installed(); err != nil {
			missing(t, "the "+d.name+" driver", err.Error())
		}
		l := &load{driver: d}
		all = append(all, l)
		ready.Add(1)
		ended.Go(func() { l.run(root, "ring", servers{addresses, 4, 4}, sync.OnceFunc(ready.Done), end) })
	}
	ready.Wait()
	stop = sync.OnceFunc(func() {
		close(end)
		ended.Wait()
		for _, l := range all {
			if l.err != nil {
				t.Errorf("%s: %v", l.name, l.err)
			}
		}
	})
	t.Cleanup(stop)
	return all, stop
}

// await waits until all drivers have seen a number of nodes and tokens.
func (all watchers) await(t *testing.T, want string) {
	t.Helper()
	for _, l := range all {
		seen := ""
		for end := time.Now().Add(40 * time.Second); seen != want; time.Sleep(20 * time.Millisecond) {
			if seen = l.lastRing(); seen != want && time.Now().After(end) {
				t.Errorf("%s sees %q nodes and tokens, want %q", l.name, seen, want)
				break
			}
		}
	}
}

// lastRing returns the numbers of nodes and tokens that the driver printed last.
func (l *load) lastRing() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range slices.Backward(l.events) {
		if _, counts, ok := strings.Cut(e.text, " "); ok && e.kind == "ring" {
			return counts
		}
	}
	return ""
}

// TestWipedNodeIsReplaced removes a node's disk: the node may not return with its former identity, and can replace
// itself.
func TestWipedNodeIsReplaced(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 4})
	addresses := strings.Split(ring.Addresses(), ",")
	w := startWorkload(t, addresses[:3], "wiped", 2)
	time.Sleep(time.Second)
	lost := ring.Servers[3]
	lost.Kill()
	// The loss of half of the disk is equivalent to the loss of all of it.
	for _, part := range []string{"data/data", "data"} {
		if err := os.RemoveAll(filepath.Join(lost.Dir, part)); err != nil {
			t.Fatal(err)
		}
		if part == "data" {
			break
		}
		if err := lost.Start(); err != nil {
			t.Fatal(err)
		}
		mustEnd(t, lost, "part of its disk must be replaced")
	}
	time.Sleep(2 * time.Second) // for the failure detector
	if err := lost.Start(); err != nil {
		t.Fatal(err)
	}
	mustEnd(t, lost, "(--replace)")
	host, _, _ := strings.Cut(lost.Address, ":")
	lost.AddFlags("--replace", host)
	if err := lost.Start(); err != nil {
		t.Fatal(err)
	}
	if err := lost.WaitAnswer(operationLimit); err != nil {
		t.Fatal(err)
	}
	waitRing(t, ring.Servers[0], 4)
	time.Sleep(time.Second)
	w.stop()
	for _, o := range w.failures(func(o outcome) bool { return false }) {
		t.Errorf("a request to %s failed: %v", o.address, o.err)
	}
	// While another node is dead, every quorum needs the new one.
	ring.Servers[0].Kill()
	time.Sleep(2 * time.Second)
	w.readBack(t, lost.Address)
}

// mustEnd waits until a server that must not run ends, and checks the reason in its log.
func mustEnd(t *testing.T, s *process.Server, reason string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); s.Running(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the node runs, although it must refuse to start with %q\n%s", reason, s.Log())
		}
	}
	if log := s.Log(); !strings.Contains(log, reason) {
		t.Errorf("the node does not log %q:\n%s", reason, log)
	}
}

// TestDeadNodeIsRemoved makes four nodes of five create new copies of the fifth node's data.
func TestDeadNodeIsRemoved(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 5})
	addresses := strings.Split(ring.Addresses(), ",")
	w := startWorkload(t, addresses[:4], "removed", 2)
	time.Sleep(time.Second)
	dead := ring.Servers[4]
	host, _, _ := strings.Cut(dead.Address, ":")
	if out, err := ctl(t, ring.Servers[0], "removenode", host); err == nil || !strings.Contains(out, "alive") {
		t.Errorf("a live node was removed: %v %s", err, out)
	}
	dead.Kill()
	time.Sleep(2 * time.Second)
	mustCtl(t, ring.Servers[0], "removenode", host)
	waitRing(t, ring.Servers[1], 4)
	w.stop()
	for _, o := range w.failures(func(o outcome) bool { return false }) {
		t.Errorf("a request to %s failed: %v", o.address, o.err)
	}
	ring.Servers[1].Kill()
	time.Sleep(2 * time.Second)
	w.readBack(t, addresses[0])
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	mustEnd(t, dead, "was removed")
}

// TestJoinWithDeadNode admits a fifth node while one of four is dead: from then on some quorums need it.
func TestJoinWithDeadNode(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 4, Spare: 1})
	w := startWorkload(t, strings.Split(ring.Addresses(), ",")[:3], "beside", 2)
	time.Sleep(time.Second)
	ring.Servers[3].Kill()
	time.Sleep(2 * time.Second) // for the failure detector
	joiner := ring.Spare[0]
	if err := joiner.Start(); err != nil {
		t.Fatal(err)
	}
	if err := joiner.WaitAnswer(operationLimit); err != nil {
		t.Fatal(err)
	}
	waitRing(t, ring.Servers[0], 5)
	w.stop()
	for _, o := range w.failures(func(o outcome) bool { return false }) {
		t.Errorf("a request to %s failed: %v", o.address, o.err)
	}
	w.readBack(t, joiner.Address)
}

// TestJoinSurvivesCrashes kills the joining node and one of its sources during the streams, and aborts an operation.
func TestJoinSurvivesCrashes(t *testing.T) {
	_, dir := cqld(t)
	config := filepath.Join(dir, "slow.yaml")
	if err := os.WriteFile(config, []byte("stream_throughput_outbound: 512KiB/s\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ring := startRing(t, process.Options{Nodes: 4, Spare: 1, Flags: []string{"--config", config}})
	addresses := strings.Split(ring.Addresses(), ",")
	w := startWorkload(t, addresses[:3], "crashes", 2)
	w.fill(t, addresses[0], 10_000)
	joiner, source := ring.Spare[0], ring.Servers[3]
	if err := joiner.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(operationLimit); stateOf(t,
		ring.Servers[0]).operations == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing has begun\n", joiner.Log())
		}
	}
	began := time.Now()
	for _, s := range []*process.Server{joiner, source} {
		time.Sleep(time.Second)
		if stateOf(t, ring.Servers[0]).operations == 0 {
			t.Error("the operation ended too soon to be disturbed")
		}
		s.Kill()
		time.Sleep(time.Second)
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := joiner.WaitAnswer(operationLimit); err != nil {
		t.Fatal(err)
	}
	waitRing(t, ring.Servers[0], 5)
	t.Logf("joined after %v", time.Since(began))

	left := make(chan string)
	go func() {
		out, err := ctl(t, joiner, "decommission")
		left <- fmt.Sprint(err, out)
	}()
	for end := time.Now().Add(20 * time.Second); stateOf(t,
		ring.Servers[0]).operations == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the decommission has not begun: ", <-left)
		}
	}
	mustCtl(t, ring.Servers[1], "abort")
	t.Log("the decommission ended: ", <-left)
	waitRing(t, ring.Servers[0], 5)

	w.stop()
	for _, o := range w.failures(func(o outcome) bool { return false }) {
		t.Errorf("a request to %s failed: %v", o.address, o.err)
	}
	w.readBack(t, joiner.Address)
	ring.Servers[1].Kill()
	time.Sleep(2 * time.Second)
	w.readBack(t, joiner.Address)
}

// TestMoveAndNewDataCenter changes the tokens of a node, and streams data to a data center that is added later.
func TestMoveAndNewDataCenter(t *testing.T) {
	t.Parallel()
	ring := startRing(t, process.Options{Nodes: 4, Spare: 1})
	c := dialServer(t, ring.Servers[0])
	for _, s := range []string{
		"CREATE KEYSPACE moved WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3}",
		"CREATE TABLE moved.written (k bigint PRIMARY KEY, v text)",
	} {
		query(t, c, s, cqlclient.Options{})
	}
	const rows = 400
	for k := range rows {
		query(t, c, fmt.Sprintf("INSERT INTO moved.written (k, v) VALUES (%d, 'x')", k),
			cqlclient.Options{Consistency: quorum})
	}
	before := mustCtl(t, ring.Servers[1], "info", "-T")
	mustCtl(t, ring.Servers[1], "move")
	waitRing(t, ring.Servers[0], 4)
	if after := mustCtl(t, ring.Servers[1], "info", "-T"); after == before {
		t.Errorf("the tokens are the same: %s", after)
	}
	for _, s := range ring.Servers {
		if n := len(keysOf(t, dialServer(t, s), "moved.written")); n != rows {
			t.Errorf("%d rows of %d after the move", n, rows)
		}
	}

	far := ring.Spare[0]
	far.AddFlags("--datacenter", "far")
	if err := far.Start(); err != nil {
		t.Fatal(err)
	}
	if err := far.WaitAnswer(operationLimit); err != nil {
		t.Fatal(err)
	}
	waitRing(t, ring.Servers[0], 5)
	query(t, c, "ALTER KEYSPACE moved WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3, "+
		"'far': 1}", cqlclient.Options{})
	mustCtl(t, far, "rebuild", "datacenter1")
	there := dialServer(t, far)
	found := 0
	for k := range rows {
		const localOne = 10
		if a := query(t, there, fmt.Sprintf("SELECT k FROM moved.written WHERE k = %d", k),
			cqlclient.Options{Consistency: localOne}); len(a.Rows) == 1 {
			found++
		}
	}
	if found != rows {
		t.Errorf("%d rows of %d are in the new data center", found, rows)
	}
}
