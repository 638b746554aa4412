//go:build integration

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// TestFailingOperations checks the commands for ring changes that lose nodes: a sender and a receiver show their
// streams, an operation whose node is dead is aborted, and the exit status of a command shows whether the ring changed.
func TestFailingOperations(t *testing.T) {
	t.Parallel()
	ring := startRing(t, process.Options{Nodes: 3, Spare: 2, YAML: []string{"stream_throughput_outbound: 256KiB/s"}})
	c := dialServer(t, ring.Servers[0])
	query(t, c, "CREATE KEYSPACE unwell WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
		cqlclient.Options{})
	query(t, c, "CREATE TABLE unwell.t (k int PRIMARY KEY, v text)", cqlclient.Options{})
	for k := range 1600 {
		value := make([]byte, 10_000) // incompressible
		for i := range value {
			value[i] = 'a' + byte(rand.IntN(26))
		}
		query(t, c, fmt.Sprintf("INSERT INTO unwell.t (k, v) VALUES (%d, '%s')", k, value),
			cqlclient.Options{Consistency: quorum})
	}
	for _, s := range ring.Servers {
		mustCtl(t, s, "flush") // the estimate of a stream covers data on disk
	}
	t.Run("abort of a dead node's join", func(t *testing.T) { abortDeadJoin(t, ring) })
	t.Run("abort at the node that joins", func(t *testing.T) { abortOwnJoin(t, ring) })
	t.Run("aborted decommission", func(t *testing.T) { abortDecommission(t, ring) })
	t.Run("killed decommission", func(t *testing.T) { killDecommission(t, ring) })
	t.Run("decommission", func(t *testing.T) {
		// the data are no longer needed
		query(t, dialServer(t, ring.Servers[0]), "TRUNCATE unwell.t", cqlclient.Options{})
		if out := mustCtl(t, ring.Servers[2], "decommission"); !strings.Contains(out, "The node has left") {
			t.Errorf("a decommission reports %q", out)
		}
		mustEnd(t, ring.Servers[2], "node has left the cluster")
		waitRing(t, ring.Servers[0], 2)
	})
}

// awaitOperation waits until a ring change begins.
func awaitOperation(t *testing.T, s *process.Server) {
	t.Helper()
	for end := time.Now().Add(operationLimit); stateOf(t, s).operations == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no operation has begun\n", s.Log())
		}
	}
}

// netStreams returns the sums of the streams of user tables in the output of "ctl netstats" at a server.
func netStreams(t *testing.T, s *process.Server, sending bool) (bytes, total int64) {
	t.Helper()
	var net struct {
		Streams []struct {
			Sending bool   `json:"sending"`
			What    string `json:"what"`
			Done    int64  `json:"done_bytes"`
			Total   int64  `json:"total_bytes"`
		} `json:"streams"`
	}
	if err := json.Unmarshal([]byte(mustCtl(t, s, "netstats", "--json")), &net); err != nil {
		t.Fatal(err)
	}
	for _, m := range net.Streams {
		if m.Sending == sending && !strings.HasPrefix(m.What, "system") {
			bytes, total = bytes+m.Done, total+m.Total
		}
	}
	return bytes, total
}

// awaitStreams waits until both nodes show streams with data.
func awaitStreams(t *testing.T, sender, receiver *process.Server) {
	t.Helper()
	var sent, sentOf, received, receivedOf int64
	for end := time.Now().Add(operationLimit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		sent, sentOf = netStreams(t, sender, true)
		received, receivedOf = netStreams(t, receiver, false)
		if sent > 0 && sentOf > 0 && received > 0 && receivedOf > 0 {
			out := mustCtl(t, sender, "netstats")
			if !strings.Contains(out, "Sending to 127.") || strings.Contains(out, " of 0 bytes") {
				t.Errorf("netstats of the sender:\n%s", out)
			}
			return
		}
	}
	t.Fatalf("the sender shows %d of %d bytes, the receiver %d of %d", sent, sentOf, received, receivedOf)
}

func abortDeadJoin(t *testing.T, ring *process.Ring) {
	joiner := ring.Spare[0]
	if err := joiner.Start(); err != nil {
		t.Fatal(err)
	}
	awaitOperation(t, ring.Servers[0])
	awaitStreams(t, ring.Servers[0], joiner)
	joiner.Kill()
	time.Sleep(2 * time.Second) // for the failure detector
	if n := stateOf(t, ring.Servers[0]).operations; n != 1 {
		t.Errorf("%d operations are under way beside the dead node", n)
	}
	mustCtl(t, ring.Servers[0], "abort")
	waitRing(t, ring.Servers[1], 3)
	if err := joiner.Start(); err != nil {
		t.Fatal(err)
	}
	mustEnd(t, joiner, "did not join: the operation was aborted")
}

func abortOwnJoin(t *testing.T, ring *process.Ring) {
	joiner := ring.Spare[1]
	if err := joiner.Start(); err != nil {
		t.Fatal(err)
	}
	awaitOperation(t, ring.Servers[0])
	var out string
	for end := time.Now().Add(operationLimit); ; time.Sleep(20 * time.Millisecond) {
		var err error
		if out, err = ctl(t, joiner, "abort"); err == nil {
			break
		}
		// The joining node may not have applied the start of the operation yet.
		if !strings.Contains(out, "0 operations are in progress") || time.Now().After(end) {
			t.Fatalf("the node that joins: %v\n%s", err, out)
		}
	}
	if !strings.Contains(out, "The node's join was aborted") {
		t.Errorf("the joining node logs %q", out)
	}
	mustEnd(t, joiner, "node has left the cluster")
	waitRing(t, ring.Servers[0], 3)
}

// decommission starts a decommission that takes seconds, and returns the outcome of its command.
func decommission(t *testing.T, ring *process.Ring) <-chan string {
	t.Helper()
	ended := make(chan string, 1)
	go func() {
		out, err := ctl(t, ring.Servers[2], "decommission")
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		ended <- fmt.Sprintf("%d: %s", code, out)
	}()
	for end := time.Now().Add(operationLimit); stateOf(t,
		ring.Servers[0]).operations == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) || len(ended) > 0 {
			t.Fatal("the decommission has not begun: ", <-ended)
		}
	}
	return ended
}

func abortDecommission(t *testing.T, ring *process.Ring) {
	ended := decommission(t, ring)
	awaitStreams(t, ring.Servers[2], ring.Servers[0])
	mustCtl(t, ring.Servers[1], "abort")
	if out := <-ended; !strings.HasPrefix(out, "1: ") || !strings.Contains(out, "was aborted") {
		t.Errorf("an aborted decommission ends with %s", out)
	}
	waitRing(t, ring.Servers[0], 3)
}

func killDecommission(t *testing.T, ring *process.Ring) {
	ended := decommission(t, ring)
	ring.Servers[2].Kill()
	if out := <-ended; !strings.HasPrefix(out, "1: ") || !strings.Contains(out, "stopped before it responded") {
		t.Errorf("a decommission whose node was killed ends with %s", out)
	}
	time.Sleep(2 * time.Second) // for the failure detector
	mustCtl(t, ring.Servers[0], "abort")
	if err := ring.Servers[2].Start(); err != nil {
		t.Fatal(err)
	}
	if err := ring.WaitAgreed(ringStart); err != nil {
		t.Fatal(err)
	}
	waitRing(t, ring.Servers[0], 3)
}

// TestDefinitionsWithoutAMajority changes the schema while two of three voters are down. The answer arrives before
// clients time out, and reports whether the outcome is unknown (the change was proposed) or the change was not made
// (the voters are known to be dead).
func TestDefinitionsWithoutAMajority(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 3})
	c := dialServer(t, ring.Servers[0])
	query(t, c, "CREATE KEYSPACE lost WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		cqlclient.Options{})
	for _, s := range ring.Servers[1:] {
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Resume() })
	}
	create := func(table string, code int, part string, most time.Duration) {
		began := time.Now()
		a, err := c.Query("CREATE TABLE lost."+table+" (k int PRIMARY KEY)", cqlclient.Options{})
		took := time.Since(began)
		if err != nil || a.Err == nil || a.Err.Code != code || !strings.Contains(a.Err.Message, part) || took > most {
			t.Errorf("a definition without a majority is answered after %v by %v %v", took, err, a)
		}
		t.Logf("after %v: %v", took, a.Err)
	}
	const writeTimeout, unavailable = 0x1100, 0x1000
	create("unknown", writeTimeout, "whether it will be made is unknown", 9900*time.Millisecond)
	create("refused", unavailable, "was not changed", 5*time.Second)
	if root, err := process.Root(); err == nil {
		cqlshRefused(t, root, ring.Servers[0])
	}
	for _, s := range ring.Servers[1:] {
		s.Resume()
	}
	if err := ring.WaitAgreed(ringStart); err != nil {
		t.Fatal(err)
	}
	query(t, c, "CREATE TABLE IF NOT EXISTS lost.unknown (k int PRIMARY KEY)", cqlclient.Options{})
	// succeeds, because it was not created before
	query(t, c, "CREATE TABLE lost.refused (k int PRIMARY KEY)", cqlclient.Options{})
}

// cqlshRefused checks the answer that cqlsh shows with its default timeout.
func cqlshRefused(t *testing.T, root string, s *process.Server) {
	cqlsh := filepath.Join(root, ".tools/python/bin/cqlsh")
	if !exists(cqlsh) {
		t.Log("cqlsh is missing: " + fmt.Sprintf(installHint, "python"))
		return
	}
	host, port, _ := strings.Cut(s.Address, ":")
	out, err := exec.Command(cqlsh, host, port, "-e", "CREATE TABLE lost.cqlsh (k int PRIMARY KEY)").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the schema was not changed") {
		t.Errorf("cqlsh shows %v %s", err, out)
	}
}

// TestStartWithoutClusterIsLogged starts nodes with the name of another cluster, and with a seed that is down. The log
// reports it within two seconds of the start of the process, and then every ten seconds.
func TestStartWithoutClusterIsLogged(t *testing.T) {
	t.Parallel()
	binary, dir := cqld(t)
	r, err := process.NewRing(binary, filepath.Join(dir, t.Name()), process.Options{Nodes: 1, Spare: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	seed, foreign, orphan := r.Servers[0], r.Spare[0], r.Spare[1]
	if err := seed.Start(); err != nil {
		t.Fatal(err)
	}
	if err := seed.WaitAnswer(ringStart); err != nil {
		t.Fatal(err)
	}
	foreign.AddFlags("--cluster-name", "another")
	for _, c := range []struct {
		server *process.Server
		reason string
	}{{foreign, "cluster_name differs"}, {orphan, "connection refused"}} {
		if c.server == orphan {
			seed.Kill()
		}
		var first time.Duration
		for try := range 3 { // the machine may be busy with other work
			if first = firstComplaint(t, c.server, c.reason, 1); first <= 2*time.Second {
				break
			}
			t.Logf("start %d: the first message arrived after %v", try+1, first)
			c.server.Kill()
		}
		if first > 2*time.Second {
			t.Errorf("%q is logged after %v only", c.reason, first)
		}
		began := time.Now()
		second := firstComplaint(t, c.server, c.reason, 2)
		if second > 12*time.Second {
			t.Errorf("%q is repeated after %v", c.reason, second)
		}
		t.Logf("%q: after %v, and again after %v", c.reason, first, time.Since(began))
		c.server.Stop()
	}
}

// firstComplaint starts the server, unless it runs, and returns the time until its log contains n of the messages.
func firstComplaint(t *testing.T, s *process.Server, reason string, n int) time.Duration {
	t.Helper()
	began := time.Now()
	if !s.Running() {
		if err := os.RemoveAll(s.Dir); err != nil {
			t.Fatal(err)
		}
		if err := s.Configure(); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for time.Since(began) < 20*time.Second {
		if log := s.Log(); strings.Count(log, "not joined to the cluster yet") >= n && strings.Contains(log, reason) {
			return time.Since(began)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the log does not contain %q %d times:\n%s", reason, n, s.Log())
	return 0
}
