//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// raceFor is the duration of TestRaceRing, unless CQLD_RACE_RING sets it.
const raceFor = 12 * time.Second

// TestRaceRing builds cqld with the race detector and with invariants, as "make race" builds its tests, and runs a ring
// of four under load; if it lasts a minute or more, a fifth node joins and leaves. The load consists of writes and
// reads at QUORUM, conditional changes, counters, logged batches, Azure Tables, schema changes, TRUNCATE, repairs, a
// rebuild, snapshots, and kills. No process may report a data race or a panic, and no acknowledged row may be lost.
func TestRaceRing(t *testing.T) {
	lasts := raceFor
	if v := os.Getenv("CQLD_RACE_RING"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatal(err)
		}
		lasts = d
	}
	_, dir := cqld(t)
	began := time.Now()
	binary, err := process.Build(context.Background(), filepath.Join(dir, "race"), "-race", "-tags", "invariants")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("built in %v", time.Since(began).Round(time.Second))
	ring, err := process.NewRing(binary, filepath.Join(dir, t.Name()), process.Options{Nodes: 4, Spare: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Start(2 * ringStart); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	w := startWorkload(t, strings.Split(ring.Addresses(), ","), "raced", 1)
	w.pause.Store(int64(30 * time.Millisecond)) // the detector makes everything ten times slower
	end := time.Now().Add(lasts)
	r := &racing{t: t, ring: ring, until: func() bool { return time.Now().Before(end) }, failures: map[string]int{},
		grows: lasts >= time.Minute}
	r.prepare()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() { r.change(i) })
	}
	all.Go(r.define)
	all.Go(r.tables)
	all.Go(r.operate)
	all.Go(r.kill)
	all.Wait()
	if err := ring.WaitAgreed(time.Minute); err != nil {
		t.Error(err)
	}
	w.stop()
	w.readBack(t, ring.Servers[0].Address)
	ring.Stop()
	for text, n := range r.failures {
		t.Logf("%d times: %s", n, text)
	}
	t.Logf("%d rows, and %d other statements (%d failed); %d operations", len(w.acked), r.done, r.failed,
		r.operations)
	if len(w.acked) == 0 || r.done-r.failed < r.done/4 || r.operations == 0 {
		t.Error("too few operations")
	}
	for _, s := range append(ring.Spare, ring.Servers...) {
		if s.PID == 0 {
			continue // it was not started
		}
		b, err := os.ReadFile(filepath.Join(s.Dir, "out.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"DATA RACE", "panic"} {
			if i := strings.Index(string(b), bad); i >= 0 {
				t.Errorf("%s: %s", s.Address, b[i:min(len(b), i+6000)])
			}
		}
	}
}

// racing contains the concurrent activities of the ring.
type racing struct {
	t     *testing.T
	ring  *process.Ring
	until func() bool

	mu                       sync.Mutex
	done, failed, operations int
	failures                 map[string]int
	grows                    bool // a fifth node joins and leaves, which takes a minute under the detector
}

func (r *racing) prepare() {
	c, err := cqlclient.Dial(r.ring.Servers[0].Address, 4)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	for _, s := range []string{
		"CREATE TABLE raced.cas (k int PRIMARY KEY, v int)", "CREATE TABLE raced.counts (k int PRIMARY KEY, n counter)",
		"CREATE TABLE raced.batched (k int, c int, v text, PRIMARY KEY (k, c))",
	} {
		if err := perform(c, s); err != nil {
			r.t.Fatal(s, err)
		}
	}
}

// record counts a statement's outcome.
func (r *racing) record(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	if err != nil {
		r.failed++
		r.failures[err.Error()]++
	}
}

// work sends statements to a server, and reconnects after a kill.
func (r *racing) work(server int, statement func(n int) string) {
	s := r.ring.Servers[server]
	for n := 0; r.until(); {
		c, err := cqlclient.Dial(s.Address, 4)
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		for r.until() {
			n++
			a, err := c.Query(statement(n), cqlclient.Options{Consistency: quorum})
			if err != nil {
				break
			}
			if a.Err != nil {
				r.record(a.Err)
				continue
			}
			r.record(nil)
			time.Sleep(30 * time.Millisecond)
		}
		c.Close()
	}
}

// change sends conditional changes, counter updates and logged batches.
func (r *racing) change(server int) {
	r.work(server, func(n int) string {
		switch n % 5 {
		case 0:
			return fmt.Sprintf("INSERT INTO raced.cas (k, v) VALUES (%d, 0) IF NOT EXISTS", n%20)
		case 1:
			return fmt.Sprintf("UPDATE raced.cas SET v = %d WHERE k = %d IF v != %d", n, n%20, n)
		case 2:
			return fmt.Sprintf("UPDATE raced.counts SET n = n + 1 WHERE k = %d", n%10)
		case 3:
			return fmt.Sprintf("BEGIN BATCH INSERT INTO raced.batched (k, c, v) VALUES (%d, %d, 'x'); "+
				"INSERT INTO raced.batched (k, c, v) VALUES (%d, %d, 'y'); APPLY BATCH", n%30, n, n%30+1, n)
		}
		return "SELECT * FROM raced.batched LIMIT 100"
	})
}

// define changes the schema, and truncates.
func (r *racing) define() {
	r.work(0, func(n int) string {
		table := fmt.Sprint("raced.made", n/6)
		switch n % 6 {
		case 0:
			return "CREATE TABLE " + table + " (k int PRIMARY KEY, v text)"
		case 1:
			return "ALTER TABLE " + table + " ADD w text"
		case 2:
			return "INSERT INTO " + table + " (k, w) VALUES (1, 'x')"
		case 3:
			return "TRUNCATE " + table
		case 4:
			return "TRUNCATE raced.batched"
		}
		return "DROP TABLE " + table
	})
}

// tables writes and reads entities over HTTP.
func (r *racing) tables() {
	a := askTables(r.t, r.ring)
	a.create("raced")
	for n := 0; r.until(); n++ {
		resp := a.do(n%2, insert("raced", fmt.Sprintf(`{"PartitionKey":"p","RowKey":"%06d","P%d":"x"}`, n, n%10)))
		if resp.Status == 201 {
			a.do((n+1)%2, get("raced", "p", fmt.Sprintf("%06d", n)))
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// operate executes operators' commands, and makes the fifth node join and leave, once.
func (r *racing) operate() {
	run := func(s *process.Server, args ...string) {
		out, err := ctl(r.t, s, args...)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.operations++; err != nil {
			r.t.Logf("ctl %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	s, spare := r.ring.Servers[1], r.ring.Spare[0]
	if r.grows {
		if err := spare.Start(); err != nil {
			r.t.Error(err)
			return
		}
		run(s, "repair", "raced")
		if err := spare.WaitAnswer(5 * time.Minute); err != nil {
			r.t.Error(err)
			return
		}
	}
	for n := 0; n == 0 || r.until(); n++ {
		run(s, "repair", "raced")
		run(s, "snapshot", "-t", fmt.Sprint("race", n), "raced")
		run(s, "compact", "raced")
		run(s, "rebuild", "-k", "raced")
		for _, args := range [][]string{{"status"}, {"info"}, {"tablestats"}, {"netstats"}, {"tpstats"},
			{"compactionstats"}, {"clearsnapshot", "--all"}} {
			run(s, args...)
		}
	}
	if r.grows {
		run(spare, "decommission")
		spare.Stop()
	}
}

// kill kills the last server at intervals.
func (r *racing) kill() {
	s := r.ring.Servers[3]
	for pause := 4 * time.Second; r.until(); pause = 8 * time.Second {
		for wait := time.Now().Add(pause); time.Now().Before(wait) && r.until(); {
			time.Sleep(50 * time.Millisecond)
		}
		s.Kill()
		if err := s.Start(); err != nil {
			r.t.Error(err)
			return
		}
		if err := s.WaitAnswer(time.Minute); err != nil {
			r.t.Error(err)
		}
	}
}
