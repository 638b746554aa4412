//go:build integration

package integration

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

const (
	// probeEvery is the pause between the requests of the second client, and probeLate the time in which each is
	// answered, or probeRatio times the slowest answer of an idle node at the same time, if that is longer: other
	// load on the machine delays both. One in probeSlack may take longer, but none as long as probeLost, or
	// probeRatio times the slowest answer of the idle node.
	probeEvery = 50 * time.Millisecond
	probeLate  = time.Second
	probeLost  = 10 * time.Second
	probeRatio = 8
	probeSlack = 20
)

// memoryRing is a ring whose nodes run in memory cgroups, each in its own.
type memoryRing struct {
	*process.Ring
	groups         []*process.MemoryGroup
	user, password string // of the second client
	probing        atomic.Pointer[probe]
	idle           *process.Server // without a bound of memory
}

// startInMemory starts a ring with default options, each node in a memory cgroup with the limit. prepare is called with
// each server before it starts. startInMemory skips the test if no cgroup can be made, and fails it if CI=true.
func startInMemory(t *testing.T, limit int64, o process.Options, prepare ...func(*process.Server)) *memoryRing {
	t.Helper()
	binary, dir := cqld(t)
	ring, err := process.NewRing(binary, dir+"/"+t.Name(), o)
	if err != nil {
		t.Fatal(err)
	}
	m := &memoryRing{Ring: ring}
	for i, s := range append(ring.Servers, ring.Spare...) {
		g, err := process.NewMemoryGroup(fmt.Sprintf("%d-%d", limit>>20, i), limit)
		if err != nil {
			missing(t, "a memory cgroup", err.Error())
		}
		t.Cleanup(func() {
			if err := g.Remove(); err != nil {
				t.Error(err)
			}
		})
		for _, f := range prepare {
			f(s)
		}
		s.RunIn(g)
		m.groups = append(m.groups, g)
	}
	t.Cleanup(ring.Stop)
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	run(t, m.dial(t), probeTable(min(3, o.Nodes))...)
	m.startIdle(t, binary, dir)
	return m
}

// probeTable returns the statements that create the table that the second client reads.
func probeTable(replicas int) []string {
	return []string{"CREATE KEYSPACE m WITH replication = {'class': 'SimpleStrategy', 'replication_factor': " +
		fmt.Sprint(replicas) + "}",
		"CREATE TABLE m.probe (k int PRIMARY KEY, v int)", "INSERT INTO m.probe (k, v) VALUES (1, 1)"}
}

// startIdle starts the node that only answers probes.
func (m *memoryRing) startIdle(t *testing.T, binary, dir string) {
	t.Helper()
	idle, err := process.NewRing(binary, dir+"/"+t.Name()+"/idle", process.Options{Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(idle.Stop)
	if err := idle.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	m.idle = idle.Servers[0]
	c, err := cqlclient.Dial(m.idle.Address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run(t, c, probeTable(1)...)
}

// dial connects to the first node until the test ends.
func (m *memoryRing) dial(t *testing.T) *cqlclient.Conn {
	t.Helper()
	c, err := cqlclient.Dial(m.Servers[0].Address, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// run executes statements.
func run(t *testing.T, c *cqlclient.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		query(t, c, s, cqlclient.Options{})
	}
}

// survives calls load, during which a second client must be served, and then checks that all nodes are alive and that
// the kernel has killed none. A load ends on its own; ctx ends when a node has ended.
func (m *memoryRing) survives(t *testing.T, name string, load func(ctx context.Context) error) {
	t.Helper()
	for _, g := range m.groups {
		if err := g.ResetPeak(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &probe{server: m.Servers[0], user: m.user, password: m.password}
	m.probing.Store(p)
	idle := &probe{server: m.idle}
	var probing sync.WaitGroup
	stop := make(chan struct{})
	probing.Go(func() { idle.asks(stop) })
	probing.Go(func() {
		if !p.asks(stop) {
			cancel()
		}
	})
	began := time.Now()
	err := load(ctx)
	took := time.Since(began)
	close(stop)
	probing.Wait()
	ended := ctx.Err() != nil
	cancel()
	if err != nil && !ended {
		t.Errorf("%s: %v", name, err)
	}
	for i, s := range m.Servers {
		u, err := m.groups[i].Usage()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v, node %d: %d MiB of processes, peak %d MiB with the page cache; %v; idle node: %v", name,
			took.Round(time.Millisecond), i+1,
			u.Anonymous>>20, u.Peak>>20, p, idle)
		if u.Killed > 0 || !s.Running() {
			t.Fatalf("%s: node %d has ended; %d processes were killed for memory\n%s", name, i+1, u.Killed, s.Log())
		}
	}
	if p.err != nil {
		t.Errorf("%s: a second client: %v", name, p.err)
	}
	late, lost := max(probeLate, probeRatio*idle.slowest()), max(probeLost, probeRatio*idle.slowest())
	if n := p.slower(late); idle.err != nil || n > 1+len(p.took)/probeSlack || p.slowest() > lost {
		t.Errorf("%s: a second client waited longer than %v %d times in %d, at most %v; idle node: %v %v", name, late,
			n, len(p.took), p.slowest(),
			idle, idle.err)
	}
}

// probe is the second client.
type probe struct {
	server         *process.Server
	user, password string
	conn           *cqlclient.Conn
	err            error

	mu   sync.Mutex
	took []time.Duration
}

// slowest returns the longest time of an answer.
func (p *probe) slowest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Max(append([]time.Duration{0}, p.took...))
}

// slower returns the number of answers that took longer than d.
func (p *probe) slower(d time.Duration) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, took := range p.took {
		if took > d {
			n++
		}
	}
	return n
}

// asks reads one row regularly until stop is closed. It returns false if the node has ended.
func (p *probe) asks(stop <-chan struct{}) bool {
	for p.ask() {
		select {
		case <-stop:
			return true
		case <-time.After(probeEvery):
		}
	}
	return false
}

// String describes the answers until now.
func (p *probe) String() string {
	late, slowest := p.slower(probeLate), p.slowest()
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%d probes, %d longer than %v, slowest %v", len(p.took), late, probeLate,
		slowest.Round(time.Millisecond))
}

// ask reads one row, and reports whether the node has not ended. A request that is refused as overloaded is repeated.
func (p *probe) ask() bool {
	began := time.Now()
	for {
		err := p.once()
		var refused *cqlclient.Error
		if err == nil {
			break
		}
		if !p.server.Running() || time.Since(began) > probeLost || !errors.As(err, &refused) {
			p.err = err
			return p.server.Running()
		}
	}
	took := time.Since(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = append(p.took, took)
	return true
}

func (p *probe) once() (err error) {
	if p.conn == nil {
		if p.conn, err = cqlclient.DialAs(p.server.Address, 4, p.user, p.password); err != nil {
			return err
		}
	}
	a, err := p.conn.Query("SELECT v FROM m.probe WHERE k = 1", cqlclient.Options{})
	if err == nil && a.Err != nil {
		return a.Err
	}
	if err == nil && len(a.Rows) != 1 {
		return fmt.Errorf("%d rows", len(a.Rows))
	}
	if err != nil {
		p.conn.Close()
		p.conn = nil
	}
	return err
}

// each calls f in n goroutines, each with its own connection to a node, until one of them fails.
func (m *memoryRing) each(ctx context.Context, n int, f func(ctx context.Context, i int,
	c *cqlclient.Conn) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			c, err := cqlclient.Dial(m.Servers[i%len(m.Servers)].Address, 4)
			if err == nil {
				defer c.Close()
				c.Timeout = time.Minute
				err = f(ctx, i, c)
			}
			if err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// fill writes rows with random bytes of the given size to a table (k int, c int, v blob), in partitions of perPartition
// rows, with several clients. Writes that are refused or time out are repeated, as a driver does.
func (m *memoryRing) fill(ctx context.Context, table string, rows, perPartition, size int) error {
	const clients = 4
	batch := max(1, min(40<<10/(size+32), perPartition)) // below batch_size_fail_threshold
	var next atomic.Int64
	return m.each(ctx, clients, func(ctx context.Context, i int, c *cqlclient.Conn) error {
		p, err := c.Prepare("INSERT INTO " + table + " (k, c, v) VALUES (?, ?, ?)")
		if err != nil {
			return err
		}
		random := rand.NewChaCha8([32]byte{byte(i)})
		for ctx.Err() == nil {
			first := int(next.Add(int64(batch))) - batch
			if first >= rows {
				return nil
			}
			var statements []cqlclient.Statement
			for row := first; row < min(first+batch, rows); row++ {
				v := make([]byte, size)
				_, _ = random.Read(v)
				statements = append(statements, cqlclient.Statement{ID: p.Prepared.ID, Values: []cqlclient.Value{
					{Bytes: int32Bytes(row / perPartition)}, {Bytes: int32Bytes(row % perPartition)}, {Bytes: v}}})
			}
			if err := patiently(ctx, func() (*cqlclient.Answer,
				error) {
				return c.Batch(1, statements, cqlclient.Options{})
			}); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

func int32Bytes(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// patiently repeats a request that is refused as overloaded, or that times out.
func patiently(ctx context.Context, request func() (*cqlclient.Answer, error)) error {
	const overloaded, writeTimeout, readTimeout = 0x1001, 0x1100, 0x1200
	for {
		a, err := request()
		if err != nil {
			return err
		}
		if a.Err == nil {
			return nil
		}
		switch a.Err.Code {
		case overloaded, writeTimeout, readTimeout:
		default:
			return a.Err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// pages reads all pages of a statement and returns the number of rows. A page that is refused is repeated.
func pages(ctx context.Context, c *cqlclient.Conn, text string, o cqlclient.Options) (rows int, err error) {
	for {
		var last *cqlclient.Answer
		err := patiently(ctx, func() (*cqlclient.Answer, error) {
			a, err := c.Query(text, o)
			last = a
			return a, err
		})
		if err != nil {
			return rows, err
		}
		rows += len(last.Rows)
		if last.PagingState == nil {
			return rows, nil
		}
		o.PagingState = last.PagingState
	}
}
