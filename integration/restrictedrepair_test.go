//go:build integration

package integration

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cqld/integration/process"
)

// allReplicas is the number of ALL in the protocol.
const allReplicas = 5

// askKeys executes a statement, which must succeed, and returns the integers in the first column, ascending.
func askKeys(t *testing.T, s *process.Server, level uint16, statement string) (out []int) {
	t.Helper()
	for _, row := range queryAt(t, s, statement, level).Rows {
		out = append(out, integer(row[0]))
	}
	slices.Sort(out)
	return out
}

// integer decodes a non-negative int.
func integer(value []byte) (n int) {
	for _, b := range value {
		n = n<<8 | int(b)
	}
	return n
}

// numbers returns those from least to most-1.
func numbers(least, most int) (out []int) {
	for i := least; i < most; i++ {
		out = append(out, i)
	}
	return out
}

// awaitUp waits until a server considers n members alive.
func awaitUp(t *testing.T, s *process.Server, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d nodes are up", n), func() bool { return upIn(membersOf(t, s)) == n })
}

var rowsSent = regexp.MustCompile(`(\d+) rows sent`)

// repairs runs "ctl repair" and returns its output and the number of rows that it sent.
func repairs(t *testing.T, s *process.Server, args ...string) (out string, rows int) {
	t.Helper()
	out = mustCtl(t, s, append([]string{"repair"}, args...)...)
	m := rowsSent.FindStringSubmatch(out)
	if m == nil {
		t.Fatal(out)
	}
	rows, _ = strconv.Atoi(m[1])
	return out, rows
}

// TestRepairOfOneDatacenter kills a data center, and writes and deletes rows that one node of the other data center
// misses, without hints. A repair of all replicas is impossible; a repair of the local data center makes its replicas
// equal. When the other data center is back, a repair of all replicas brings it everything.
func TestRepairOfOneDatacenter(t *testing.T) {
	t.Parallel()
	binary, dir := cqld(t)
	ring, err := process.NewRing(binary, dir+"/"+t.Name(), process.Options{Nodes: 5,
		YAML: []string{"auto_repair_enabled: false", "num_tokens: 4", readsOneNode}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	for i, dc := range []string{"dc1", "dc1", "dc1", "dc2", "dc2"} {
		if err := ring.Servers[i].Configure("datacenter: " + dc); err != nil {
			t.Fatal(err)
		}
	}
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	first, absent, lost := ring.Servers[0], ring.Servers[2], ring.Servers[3:]
	askKeys(t, first, 0, "CREATE KEYSPACE ks WITH replication = "+
		"{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 2}")
	askKeys(t, first, 0, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	for k := range 100 {
		askKeys(t, first, allReplicas, fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, %d)", k, k))
	}
	for _, s := range ring.Servers {
		mustCtl(t, s, "disablehandoff")
	}
	for _, s := range lost {
		s.Kill()
	}
	absent.Kill()
	awaitUp(t, first, 2)
	for k := range 50 { // 0 to 49 are deleted, 100 to 149 are new
		askKeys(t, first, localQuorum, fmt.Sprintf("DELETE FROM ks.t WHERE k = %d", k))
		askKeys(t, first, localQuorum, fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, 0)", 100+k))
	}
	if err := absent.Start(); err != nil {
		t.Fatal(err)
	}
	if err := absent.WaitAnswer(lossStep); err != nil {
		t.Fatal(err)
	}
	awaitUp(t, first, 3)
	if got := askKeys(t, absent, nodeLocal, "SELECT k FROM ks.t"); !slices.Equal(got, numbers(0, 100)) {
		t.Fatalf("the node that was absent has %v before a repair, so the test shows nothing", got)
	}

	if out, rows := repairs(t, first, "ks"); rows != 0 || !strings.Contains(out, "skipped because a replica is down") {
		t.Errorf("a repair of all replicas while some are dead: %s", out)
	}
	out, rows := repairs(t, first, "ks", "--in-local-dc")
	if rows < 100 || strings.Contains(out, "skipped") || !strings.Contains(out, "only some replicas were repaired") {
		t.Errorf("a repair of one data center: %s", out)
	}
	for _, s := range ring.Servers[:3] {
		if got := askKeys(t, s, nodeLocal, "SELECT k FROM ks.t"); !slices.Equal(got, numbers(50, 150)) {
			t.Errorf("after the repair, %s has %v", s.Address, got)
		}
	}
	for _, args := range [][]string{{"--in-dc", "dc1"},
		{"--in-hosts", internode(t, first) + "," + internode(t, absent)}} {
		if out, rows := repairs(t, first, append([]string{"ks"}, args...)...); rows != 0 ||
			strings.Contains(out, "skipped") {
			t.Errorf("a repair with %v of equal replicas: %s", args, out)
		}
	}
	page, err := first.Metrics(context.Background())
	if err != nil || !strings.Contains(page, "\ncqld_repair_restricted_total 3\n") {
		t.Errorf("the metrics do not have three restricted repairs: %v", err)
	}

	for _, s := range lost {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitAnswer(lossStep); err != nil {
			t.Fatal(err)
		}
	}
	awaitUp(t, first, 5)
	if got := askKeys(t, lost[0], nodeLocal, "SELECT k FROM ks.t"); !slices.Equal(got, numbers(0, 100)) {
		t.Errorf("the repair of one data center has changed the other one, which has %v", got)
	}
	if out, rows := repairs(t, first, "ks"); rows < 100 || strings.Contains(out, "skipped") {
		t.Errorf("a repair of all replicas: %s", out)
	}
	for _, s := range ring.Servers {
		if got := askKeys(t, s, nodeLocal, "SELECT k FROM ks.t"); !slices.Equal(got, numbers(50, 150)) {
			t.Errorf("after the repair of all replicas, %s has %v", s.Address, got)
		}
	}
}

// TestTwoOfFiveNodesAreRemoved kills two nodes of five that have three replicas of each row, so that some rows have one
// live replica, and removes both. The ring serves afterwards. After a repair, every row has three equal replicas again.
func TestTwoOfFiveNodesAreRemoved(t *testing.T) {
	t.Parallel()
	ring := startRing(t, process.Options{Nodes: 5, YAML: []string{"auto_repair_enabled: false", readsOneNode}})
	first := ring.Servers[0]
	askKeys(t, first, 0, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	askKeys(t, first, 0, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	const rows = 200
	for k := range rows {
		askKeys(t, first, allReplicas, fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, %d)", k, k))
	}
	began := time.Now()
	for _, s := range ring.Servers[3:] {
		s.Kill()
	}
	awaitUp(t, first, 3)
	missing := ""
	for _, s := range ring.Servers[3:] {
		out := mustCtl(t, first, "removenode", internode(t, s))
		t.Logf("%s removed after %v: %s", s.Address, time.Since(began), strings.TrimSpace(out))
		missing += out
	}
	if !strings.Contains(missing, "keyspace ks") {
		t.Error("no command has named ranges that lack data, although some had one replica that was alive")
	}
	if st := stateOf(t, first); st.nodes != 3 || st.operations != 0 {
		t.Errorf("%+v", st)
	}

	// With factor 3, each of the three nodes is a replica of every row.
	for _, s := range ring.Servers[:3] {
		askKeys(t, s, quorum, "INSERT INTO ks.t (k, v) VALUES (1000, 1)")
		askKeys(t, s, quorum, "UPDATE ks.t SET v = 2 WHERE k = 1000 IF v = 1")
	}
	askKeys(t, first, 0, "CREATE TABLE ks.u (k int PRIMARY KEY)")
	out, _ := repairs(t, first, "ks") // it sends rows only if streams have not copied everything
	t.Logf("repaired after %v: %s", time.Since(began), strings.TrimSpace(out))
	if strings.Contains(out, "skipped") {
		t.Errorf("the repair after the removals: %s", out)
	}
	for _, s := range ring.Servers[:3] {
		if got := askKeys(t, s, nodeLocal, "SELECT k FROM ks.t"); !slices.Equal(got, append(numbers(0, rows), 1000)) {
			t.Errorf("%s has %v", s.Address, got)
		}
	}
	if out, sent := repairs(t, first, "ks"); sent != 0 {
		t.Errorf("a second repair: %s", out)
	}
}
