package cqldtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/cqldtest"
	"cqld/internal/await"
	"cqld/internal/tier"
	"cqld/node/config"
)

// variants returns the options for each kind of storage and network.
func variants(t *testing.T) map[string][]cqldtest.Option {
	return map[string][]cqldtest.Option{
		"memory":            nil,
		"network in memory": {cqldtest.InMemoryNetwork()},
		"disk":              {cqldtest.OnDisk(t.TempDir())},
	}
}

// connect returns a session that sends all requests to one node.
func connect(t *testing.T, n *cqldtest.Node, c *cqldtest.Cluster) *gocql.Session {
	t.Helper()
	config := gocql.NewCluster(n.Address())
	config.Port, config.Dialer, config.DisableInitialHostLookup = c.Port(), c, true
	config.ProtoVersion, config.NumConns, config.Timeout, config.ConnectTimeout = 5, 1, 10*time.Second, 10*time.Second
	config.RetryPolicy = &gocql.SimpleRetryPolicy{}
	// timestamps must follow the test's clock
	config.DefaultTimestamp = false
	// events would add other nodes
	config.Events.DisableTopologyEvents, config.Events.DisableNodeStatusEvents = true, true
	config.Logger = quiet{}
	s, err := config.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSession(s) })
	return s
}

// closeSession closes a session, and waits a while for the end. Close of gocql 2.1.2 does not return if the driver is
// connecting its control connection again at that moment, as after a kill: the goroutine that must hear of the end
// waits for the schema, which Close has stopped reading.
func closeSession(s *gocql.Session) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
	}
}

// quiet is a logger of gocql that logs nothing: tests cut connections on purpose.
type quiet struct{}

func (quiet) Error(string, ...gocql.LogField)   {}
func (quiet) Warning(string, ...gocql.LogField) {}
func (quiet) Info(string, ...gocql.LogField)    {}
func (quiet) Debug(string, ...gocql.LogField)   {}

func exec(t *testing.T, s *gocql.Session, statement string, values ...any) {
	t.Helper()
	if err := s.Query(statement, values...).Exec(); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// create creates table k.t with 3 replicas, or as many as there are nodes.
func create(t *testing.T, s *gocql.Session, c *cqldtest.Cluster) {
	t.Helper()
	exec(t, s, fmt.Sprintf("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': "+
		"%d}", min(3, len(c.Nodes()))))
	exec(t, s, "CREATE TABLE k.t (a int PRIMARY KEY, v int)")
}

// write inserts row i at QUORUM.
func write(s *gocql.Session, i int) error {
	return s.Query("INSERT INTO k.t (a, v) VALUES (?, ?)", i, i).Consistency(gocql.Quorum).Exec()
}

// mustWrite writes row i. Under load, nodes may consider each other down for a moment, so it retries.
func mustWrite(t *testing.T, s *gocql.Session, i int) {
	t.Helper()
	repeat(t, func() error { return write(s, i) })
}

// repeat calls f until it succeeds.
func repeat(t *testing.T, f func() error) {
	t.Helper()
	var err error
	if !await.Reached(20*time.Second, func() bool { err = f(); return err == nil }) {
		t.Fatal(err)
	}
}

// count returns the number of rows in k.t.
func count(t *testing.T, s *gocql.Session, level gocql.Consistency) (n int) {
	t.Helper()
	repeat(t, func() error { return s.Query("SELECT count(*) FROM k.t").Consistency(level).Scan(&n) })
	return n
}

func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestKillKeepsAcknowledgedWrites checks that every acknowledged write exists after each node was killed and restarted
// in turn.
func TestKillKeepsAcknowledgedWrites(t *testing.T) {
	tier.Long(t)
	for name, opts := range variants(t) {
		t.Run(name, func(t *testing.T) {
			c := cqldtest.Start(t, append(opts, cqldtest.Nodes(3))...)
			create(t, connect(t, c.Node(0), c), c)
			rows := 0
			for i, n := range c.Nodes() {
				s := connect(t, c.Node((i+1)%3), c)
				for range 5 {
					mustWrite(t, s, rows)
					rows++
				}
				must(t, n.Kill())
				if n.Running() {
					t.Fatal("a killed node runs")
				}
				must(t, c.AwaitDown(patience(t), i))
				mustWrite(t, s, rows) // two of three replicas are up
				rows++
				must(t, n.Restart(patience(t)))
				must(t, c.AwaitUp(patience(t)))
				if got := count(t, connect(t, n, c), gocql.All); got != rows {
					t.Fatalf("after node %d was killed %d of %d rows exist", i, got, rows)
				}
			}
			must(t, c.Node(1).Stop(patience(t)))
			must(t, c.Node(1).Restart(patience(t)))
			if got := count(t, connect(t, c.Node(1), c), gocql.Quorum); got != rows {
				t.Fatalf("after a stop %d of %d rows exist", got, rows)
			}
		})
	}
}

// TestKillBreaksConnections checks that a killed node closes its connections and refuses new ones.
func TestKillBreaksConnections(t *testing.T) {
	for name, opts := range variants(t) {
		t.Run(name, func(t *testing.T) {
			c := cqldtest.Start(t, opts...)
			conn, err := c.DialContext(t.Context(), "tcp", c.Node(0).Address())
			must(t, err)
			must(t, c.Node(0).Kill())
			conn.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Fatal("the connection survives:", err)
			}
			if _, err := c.DialContext(t.Context(), "tcp", c.Node(0).Address()); err == nil {
				t.Fatal("a killed node accepts a connection")
			}
			must(t, c.Node(0).Restart(patience(t)))
			connect(t, c.Node(0), c)
		})
	}
}

// TestPausedNodeAnswersAfterThePause checks that a paused node keeps its connections without responding, and responds
// after the pause to the requests that it has received.
func TestPausedNodeAnswersAfterThePause(t *testing.T) {
	for name, opts := range variants(t) {
		t.Run(name, func(t *testing.T) {
			c := cqldtest.Start(t, opts...)
			s := connect(t, c.Node(0), c)
			create(t, s, c)
			c.Node(0).Pause()
			answered := make(chan error, 1)
			go func() { answered <- write(s, 1) }()
			select {
			case err := <-answered:
				t.Fatal("a paused node answers:", err)
			case <-time.After(300 * time.Millisecond):
			}
			c.Node(0).Resume()
			must(t, <-answered)
			if got := count(t, s, gocql.One); got != 1 {
				t.Fatalf("%d rows", got)
			}
		})
	}
}

// TestPausedNodeIsDown checks that the other nodes see a paused node down, and up again after the pause.
func TestPausedNodeIsDown(t *testing.T) {
	c := cqldtest.Start(t, cqldtest.Nodes(3))
	s := connect(t, c.Node(0), c)
	create(t, s, c)
	c.Node(2).Pause()
	must(t, c.AwaitDown(patience(t), 2))
	mustWrite(t, s, 1)
	c.Node(2).Resume()
	must(t, c.AwaitUp(patience(t)))
	if got := count(t, connect(t, c.Node(2), c), gocql.All); got != 1 {
		t.Fatalf("%d rows", got)
	}
}

// TestPartition checks that only the side of a partition with enough replicas serves requests, and both sides after it.
func TestPartition(t *testing.T) {
	for name, opts := range variants(t) {
		t.Run(name, func(t *testing.T) {
			c := cqldtest.Start(t, append(opts, cqldtest.Nodes(3))...)
			minority, majority := connect(t, c.Node(0), c), connect(t, c.Node(1), c)
			create(t, majority, c)
			c.Partition([]int{0})
			must(t, c.AwaitDown(patience(t), 0)) // node 0 and the others do not see each other
			mustWrite(t, majority, 1)
			var refused *gocql.RequestErrUnavailable
			for late := time.Now().Add(20 * time.Second); ; {
				err := write(minority, 2)
				if errors.As(err, &refused) {
					break
				}
				if time.Now().After(late) {
					t.Fatal("the node that is cut off does not refuse a write:", err)
				}
			}
			c.Heal()
			must(t, c.AwaitUp(patience(t)))
			mustWrite(t, minority, 3)
			if got := count(t, minority, gocql.All); got < 2 {
				t.Fatalf("%d rows", got)
			}
		})
	}
}

// TestSlowDisk checks that each write of a node with a slow disk waits for the disk.
func TestSlowDisk(t *testing.T) {
	c := cqldtest.Start(t)
	s := connect(t, c.Node(0), c)
	create(t, s, c)
	const slow = 100 * time.Millisecond
	c.Node(0).SlowDisk(slow)
	began := time.Now()
	mustWrite(t, s, 1)
	if took := time.Since(began); took < slow {
		t.Fatalf("a write took %v, and the disk takes %v", took, slow)
	}
	c.Node(0).SlowDisk(0)
	mustWrite(t, s, 2)
}

// TestClock checks that TTLs and timestamps follow the clock, and that nodes stay up when the clock moves.
func TestClock(t *testing.T) {
	start := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	c := cqldtest.Start(t, cqldtest.Nodes(3), cqldtest.UseClock(cqldtest.NewClock(start)))
	s := connect(t, c.Node(0), c)
	create(t, s, c)
	exec(t, s, "INSERT INTO k.t (a, v) VALUES (1, 1) USING TTL 86400")
	var written int64
	must(t, s.Query("SELECT writetime(v) FROM k.t WHERE a = 1").Scan(&written))
	if at := time.UnixMicro(written); at.Before(start) || at.After(start.Add(time.Hour)) {
		t.Fatalf("written at %v by a clock that began at %v", at, start)
	}
	c.Clock().Advance(23 * time.Hour)
	if got := count(t, s, gocql.All); got != 1 {
		t.Fatalf("%d rows before the TTL has expired", got)
	}
	c.Clock().Advance(2 * time.Hour)
	if got := count(t, s, gocql.All); got != 0 {
		t.Fatalf("%d rows after the TTL has expired", got)
	}
	must(t, c.AwaitUp(patience(t)))
}

// TestSkewedClock checks that a node with a wrong clock refuses requests until the clock is correct.
func TestSkewedClock(t *testing.T) {
	c := cqldtest.Start(t, cqldtest.Nodes(3))
	s := connect(t, c.Node(2), c)
	create(t, s, c)
	c.Node(2).SkewClock(5 * time.Second)
	await.Until(t, "writes are refused", func() bool { return write(s, 1) != nil })
	c.Node(2).SkewClock(0)
	await.Until(t, "writes are accepted", func() bool { return write(s, 1) == nil })
}

// TestClustersShareNoAddress checks that clusters that run concurrently have different addresses.
func TestClustersShareNoAddress(t *testing.T) {
	taken := map[string]bool{}
	for range 6 {
		for _, a := range cqldtest.Start(t, cqldtest.Nodes(2)).Addresses() {
			if taken[a] {
				t.Fatalf("two nodes listen at %s", a)
			}
			taken[a] = true
		}
	}
}

// TestCloseEndsAllGoroutines checks that Close ends every goroutine of a cluster, even with faults.
func TestCloseEndsAllGoroutines(t *testing.T) {
	for name, opts := range variants(t) {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			c, err := cqldtest.Open(t.Context(), append(opts, cqldtest.Nodes(3))...)
			must(t, err)
			c.Partition([]int{0}, []int{1, 2})
			c.Node(1).Pause()
			must(t, c.Node(2).Kill())
			must(t, c.Close())
			if !await.Reached(time.Minute, func() bool { return runtime.NumGoroutine() <= before }) {
				stacks := make([]byte, 1<<20)
				stacks = stacks[:runtime.Stack(stacks, true)]
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	dir := t.TempDir()
	c, err := cqldtest.Open(t.Context(), cqldtest.OnDisk(dir))
	must(t, err)
	must(t, c.Close())
	for want, opts := range map[string][]cqldtest.Option{
		"0 nodes":                       {cqldtest.Nodes(0)},
		"65 nodes":                      {cqldtest.Nodes(65)},
		"holds data of another cluster": {cqldtest.OnDisk(dir)},
		"UseClock needs a clock":        {cqldtest.UseClock(nil)},
		"num_tokens: 0 is not between 1 a": {cqldtest.Configure(func(_ int,
			o *config.Options) {
			o.Join.NumTokens = 0
		})},
	} {
		if _, err := cqldtest.Open(t.Context(), opts...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v instead of an error that says %q", err, want)
		}
	}
}

// TestLog checks that the log is kept, or written to the writer of LogTo.
func TestLog(t *testing.T) {
	c := cqldtest.Start(t)
	if !strings.Contains(c.Log(), "serving CQL clients") {
		t.Errorf("the log is %q", c.Log())
	}
	var log bytes.Buffer // of one node; read after it has ended
	c, err := cqldtest.Open(t.Context(), cqldtest.LogTo(&log))
	must(t, err)
	must(t, c.Close())
	if c.Log() != "" || !strings.Contains(log.String(), "serving CQL clients") {
		t.Errorf("the logs are %q and %q", c.Log(), log.String())
	}
}
