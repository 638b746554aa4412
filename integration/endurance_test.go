//go:build integration

package integration

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// endurance returns how long TestEndurance loads the ring: CQLD_ENDURANCE, such as 1h, or a short time.
func endurance(t *testing.T) time.Duration {
	text := os.Getenv("CQLD_ENDURANCE")
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// footprint contains the resources of a process.
type footprint struct {
	rss        int64 // bytes
	cache      int64 // bytes of it that are storage's block cache, which fills as files are read
	goroutines int
	files      int // open files, except data files
}

func (f footprint) String() string {
	return fmt.Sprintf("%d MiB, of which %d of blocks, %d goroutines, %d files", f.rss>>20, f.cache>>20, f.goroutines,
		f.files)
}

func footprintOf(t *testing.T, s *process.Server, pprof string) (f footprint) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.PID))
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	f.rss = pages * int64(os.Getpagesize())
	var info struct {
		Cache *int64 `json:"block_cache_size"`
	}
	if err := json.Unmarshal([]byte(mustCtl(t, s, "info", "--json")), &info); err != nil || info.Cache == nil {
		t.Fatal(err, info)
	}
	f.cache = *info.Cache
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range open {
		if target, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(s.PID), "fd", e.Name())); err == nil &&
			!strings.HasPrefix(target, s.Dir) {
			f.files++
		}
	}
	r, err := http.Get("http://" + pprof + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	head, _ := io.ReadAll(io.LimitReader(r.Body, 100))
	if _, err := fmt.Sscanf(string(head), "goroutine profile: total %d", &f.goroutines); err != nil {
		t.Fatal(err)
	}
	return f
}

// mixed adds counters, conditional inserts and logged batches to a workload's rows.
type mixed struct {
	keyspace string
	stopped  chan struct{}
	working  sync.WaitGroup

	counted, uncertain atomic.Int64
	mu                 sync.Mutex
	won, batched       []int64
	failed             []error
}

func startMixed(t *testing.T, keyspace string, addresses []string) *mixed {
	t.Helper()
	m := &mixed{keyspace: keyspace, stopped: make(chan struct{})}
	c, err := cqlclient.Dial(addresses[0], 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, s := range []string{
		"CREATE TABLE %s.counted (k int PRIMARY KEY, c counter)",
		"CREATE TABLE %s.won (k bigint PRIMARY KEY, who text)",
		"CREATE TABLE %s.left (k bigint PRIMARY KEY)",
		"CREATE TABLE %s.right (k bigint PRIMARY KEY)",
	} {
		if a, err := c.Query(fmt.Sprintf(s, keyspace), cqlclient.Options{}); err != nil || a.Err != nil {
			t.Fatal(s, err, a)
		}
	}
	for _, address := range addresses {
		m.working.Go(func() { m.work(address) })
	}
	return m
}

func (m *mixed) work(address string) {
	var c *cqlclient.Conn
	for k := int64(rand.Uint32()) << 32; ; k++ {
		select {
		case <-m.stopped:
			if c != nil {
				c.Close()
			}
			return
		case <-time.After(30 * time.Millisecond):
		}
		if c == nil {
			var err error
			if c, err = cqlclient.Dial(address, 4); err != nil {
				c = nil
				continue
			}
		}
		if !m.step(c, k) {
			c.Close()
			c = nil
		}
	}
}

// step sends one request of each kind; it returns false if the connection broke.
func (m *mixed) step(c *cqlclient.Conn, k int64) bool {
	ask := func(text string, args ...any) (certain, usable bool) {
		a, err := c.Query(fmt.Sprintf(text, append([]any{m.keyspace}, args...)...),
			cqlclient.Options{Consistency: quorum})
		if err == nil && a.Err != nil {
			m.mu.Lock()
			m.failed = append(m.failed, a.Err)
			m.mu.Unlock()
		}
		return err == nil && a.Err == nil, err == nil
	}
	certain, usable := ask("UPDATE %s.counted SET c = c + 1 WHERE k = 1")
	if certain {
		m.counted.Add(1)
	} else {
		m.uncertain.Add(1)
	}
	if !usable {
		return false
	}
	if certain, usable = ask("INSERT INTO %s.won (k, who) VALUES (%d, 'me') IF NOT EXISTS", k); certain {
		m.note(&m.won, k)
	}
	if !usable {
		return false
	}
	if certain, usable = ask("BEGIN BATCH INSERT INTO %[1]s.left (k) VALUES (%[2]d); INSERT INTO %[1]s.right (k) "+
		"VALUES (%[2]d); APPLY BATCH", k); certain {
		m.note(&m.batched, k)
	}
	return usable
}

func (m *mixed) note(to *[]int64, k int64) {
	m.mu.Lock()
	*to = append(*to, k)
	m.mu.Unlock()
}

// judge reads all rows and compares them with the acknowledged ones.
func (m *mixed) judge(t *testing.T, address string) {
	t.Helper()
	close(m.stopped)
	m.working.Wait()
	c, err := cqlclient.Dial(address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := c.Query("SELECT c FROM "+m.keyspace+".counted WHERE k = 1", cqlclient.Options{Consistency: quorum})
	if err != nil || a.Err != nil || len(a.Rows) != 1 {
		t.Fatal(err, a)
	}
	low, high := m.counted.Load(), m.counted.Load()+m.uncertain.Load()
	if n := int64(binary.BigEndian.Uint64(a.Rows[0][0])); n < low || n > high {
		t.Errorf("the counter is %d, of %d acknowledged and %d attempted increments", n, low, high)
	}
	there := map[string]map[int64]bool{}
	for _, table := range []string{"won", "left", "right"} {
		there[table] = keysOf(t, c, m.keyspace+"."+table)
	}
	missing := 0
	for _, k := range m.won {
		if !there["won"][k] {
			missing++
		}
	}
	for _, k := range m.batched {
		if !there["left"][k] || !there["right"][k] {
			missing++
		}
	}
	half := 0
	for k := range there["left"] {
		if !there["right"][k] {
			half++
		}
	}
	if missing > 0 || half > 0 || len(there["left"]) != len(there["right"]) {
		t.Errorf("%d acknowledged rows are missing, %d batches are partially applied", missing, half)
	}
	t.Logf("%d increments, %d conditional inserts and %d logged batches acknowledged, %d answers were errors", low,
		len(m.won), len(m.batched), len(m.failed))
}

func keysOf(t *testing.T, c *cqlclient.Conn, table string) map[int64]bool {
	t.Helper()
	there := map[int64]bool{}
	var state []byte
	for {
		a, err := c.Query("SELECT k FROM "+table, cqlclient.Options{Consistency: quorum, PageSize: 1000,
			PagingState: state})
		if err != nil || a.Err != nil {
			t.Fatal(err, a)
		}
		for _, row := range a.Rows {
			there[int64(binary.BigEndian.Uint64(row[0]))] = true
		}
		if state = a.PagingState; state == nil {
			return there
		}
	}
}

// TestEndurance loads a ring with all kinds of requests while nodes are killed and restarted, all except the first. At
// the end, that node's resources must be at most those after the warm-up.
func TestEndurance(t *testing.T) {
	length := endurance(t)
	binary, dir := cqld(t)
	ring, err := process.NewRing(binary, filepath.Join(dir, t.Name()), process.Options{Nodes: 4})
	if err != nil {
		t.Fatal(err)
	}
	// below the ports that the system gives to connections
	pprof := "127.0.0.1:" + strconv.Itoa(21000+os.Getpid()%10000)
	ring.Servers[0].AddFlags("--pprof", pprof)
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	addresses := strings.Split(ring.Addresses(), ",")
	w := startWorkload(t, addresses, "endurance", 1)
	w.pause.Store(int64(10 * time.Millisecond))
	m := startMixed(t, "endurance", addresses)
	f := &faults{t: t, ring: ring, w: w, answers: true}
	began := time.Now()
	var warm footprint
	kills, quarters := 0, 0
	for time.Since(began) < length {
		if quarter := int(4 * time.Since(began) / length); quarter > quarters {
			quarters = quarter
			f := footprintOf(t, ring.Servers[0], pprof)
			t.Logf("after %v: %v", time.Since(began).Round(time.Second), f)
			if warm.rss == 0 {
				warm = f
			}
		}
		time.Sleep(time.Second + rand.N(min(20*time.Second, length/8)))
		s := ring.Servers[1+rand.IntN(3)]
		from := time.Now()
		s.Kill()
		kills++
		time.Sleep(time.Second + rand.N(min(5*time.Second, length/8)))
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if err := ring.WaitAgreed(ringStart); err != nil {
			t.Fatal(err)
		}
		f.until(s, from)
	}
	time.Sleep(3 * time.Second)
	end := footprintOf(t, ring.Servers[0], pprof)
	m.judge(t, addresses[0])
	f.end()
	for _, err := range m.failed {
		if !errors.Is(err, errLost) { // the first few show the kind
			t.Logf("a response: %v", err)
			break
		}
	}
	t.Logf("%v, %d kills: %v when warm, %v at the end", time.Since(began).Round(time.Second), kills, warm, end)
	if end.goroutines > warm.goroutines+100 || end.files > warm.files+50 ||
		end.rss-end.cache > (warm.rss-warm.cache)*5/4+64<<20 {
		t.Errorf("the resources of the first node grew")
	}
}
