package node

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/azuretables"
	"cqld/azuretables/client"
	"cqld/integration/cqlclient"
	"cqld/internal/await"
	"cqld/internal/env"
	"cqld/internal/syncbuf"
	"cqld/node/assembly"
	"cqld/node/config"
	"cqld/paxos"
	"cqld/query"
	"cqld/request"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// faulty configures faults of a node. Fields that are not nil are called.
type faulty struct {
	mu      sync.Mutex
	table   schema.StorageID // the table with faults
	read    func(*row.ReadCommand) error
	applied func()
	cas     func()
	virtual func()
	scan    func(*env.Cancel) error
}

func (f *faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *faulty) get() faulty {
	f.mu.Lock()
	defer f.mu.Unlock()
	return faulty{table: f.table, read: f.read, applied: f.applied, cas: f.cas, virtual: f.virtual, scan: f.scan}
}

// faultyEngine is storage with faults.
type faultyEngine struct {
	assembly.RequestEngine
	f *faulty
}

func (e faultyEngine) Read(dst []byte, cmd *row.ReadCommand) ([]byte, error) {
	f := e.f.get()
	if f.read != nil && cmd.Table == f.table {
		if err := f.read(cmd); err != nil {
			return dst, err
		}
	}
	if f.scan != nil && cmd.Table == f.table {
		if err := f.scan(cmd.Cancel); err != nil {
			return dst, err
		}
	}
	return e.RequestEngine.Read(dst, cmd)
}

func (e faultyEngine) Partitions(q *storage.PartitionsRead) (storage.PartitionsPage, error) {
	if f := e.f.get(); f.scan != nil && q.Table == f.table {
		if err := f.scan(q.Cancel); err != nil {
			return storage.PartitionsPage{}, err
		}
	}
	return e.RequestEngine.Partitions(q)
}

func (e faultyEngine) Apply(ms []*row.Mutation, durable bool, done func(error)) error {
	f := e.f.get()
	if f.applied == nil || ms[0].Table != f.table {
		return e.RequestEngine.Apply(ms, durable, done)
	}
	return e.RequestEngine.Apply(ms, durable, func(err error) {
		done(err)
		f.applied()
	})
}

// faultyProposer is a proposer with faults.
type faultyProposer struct {
	request.Proposer
	f *faulty
}

func (s faultyProposer) CAS(req *paxos.CASRequest, done func(bool, []byte, error)) {
	if f := s.f.get(); f.cas != nil && req.Command.Table == f.table {
		again := *req
		again.Update = func(page []byte, timestamp int64) (*row.Mutation, bool, error) {
			f.cas()
			return req.Update(page, timestamp)
		}
		req = &again
	}
	s.Proposer.CAS(req, done)
}

// faultyTables are virtual tables with faults.
type faultyTables struct {
	query.VirtualSource
	f *faulty
}

func (s faultyTables) Partitions(t *schema.Table, cmd *row.ReadCommand, yield func(*row.Partition) bool) (bool, error) {
	if f := s.f.get(); f.virtual != nil && t.Name == "settings" {
		f.virtual()
	}
	return s.VirtualSource.Partitions(t, cmd, yield)
}

// inProcess is a ring of nodes in this process, with real sockets and in-memory disks.
type inProcess struct {
	t      *testing.T
	nodes  []*Node
	faults []*faulty
	log    syncbuf.Buffer
	killed map[*Node]bool
}

// openNodes opens a ring of n nodes at consecutive addresses from 127.0.subnet.1.
func openNodes(t *testing.T, subnet byte, n int, change func(*config.Options)) *inProcess {
	t.Helper()
	r := &inProcess{t: t}
	for range n {
		r.openNode(subnet, change)
	}
	for _, node := range r.nodes {
		if !await.Reached(time.Minute, func() bool { return node.Status().Up >= n }) {
			t.Fatalf("a node sees %+v", node.Status())
		}
	}
	return r
}

// patient are timeouts of requests that pass on no machine that is only busy, or stops the process for seconds.
func patient() config.Timeouts {
	const all = time.Minute
	return config.Timeouts{Read: all, Range: all, Write: all, CAS: all, Counter: all, Truncate: all}
}

// openNode opens the next node of a ring.
func (r *inProcess) openNode(subnet byte, change func(*config.Options)) {
	r.t.Helper()
	t, f := r.t, &faulty{}
	o := config.Default()
	o.Listen.Address = netip.AddrFrom4([4]byte{127, 0, subnet, byte(len(r.nodes) + 1)})
	o.Listen.RPCAddress, o.FS, o.DataDir = o.Listen.Address, vfs.NewMem(), "data"
	o.Join.Seeds = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, subnet, 1}),
		o.Listen.StoragePort)}
	o.Memory.CacheBytes, o.Background.AutoRepair, o.Join.NumTokens = 8<<20, false, 8
	o.Timeouts = patient()
	o.DropGrace = 0         // tests look for the data of dropped tables
	o.DataDir = t.TempDir() // for the control socket
	o.Logger = slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	wrappers := faults{
		engine:   func(e assembly.RequestEngine) assembly.RequestEngine { return faultyEngine{e, f} },
		proposer: func(p request.Proposer) request.Proposer { return faultyProposer{p, f} },
		virtual:  func(s query.VirtualSource) query.VirtualSource { return faultyTables{s, f} },
	}
	if change != nil {
		change(&o)
	}
	if err := o.FS.MkdirAll(o.DataDir, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	node, err := open(ctx, o, wrappers)
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if r.killed[node] {
			return
		}
		if err := node.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	r.nodes, r.faults = append(r.nodes, node), append(r.faults, f)
}

// kill ends a node's process and starts the next one with what was written to its crashable disk. change, which may be
// nil, changes the options.
func (r *inProcess) kill(i int, change func(*config.Options)) {
	r.t.Helper()
	node := r.nodes[i]
	o := node.opts
	o.FS = o.FS.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
	if r.killed == nil {
		r.killed = map[*Node]bool{}
	}
	r.killed[node] = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := node.Close(ctx); err != nil {
		r.t.Errorf("close: %v", err)
	}
	if change != nil {
		change(&o)
	}
	next, err := open(ctx, o, node.faults)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := next.Close(ctx); err != nil {
			r.t.Errorf("close: %v", err)
		}
	})
	r.nodes[i] = next
	if !await.Reached(time.Minute, func() bool { return next.Status().Up >= len(r.nodes) }) {
		r.t.Fatalf("a node sees %+v", next.Status())
	}
}

// connect connects to a node's CQL port.
func (r *inProcess) connect(i int) *cqlclient.Conn {
	r.t.Helper()
	c, err := cqlclient.Dial(r.nodes[i].opts.Native().String(), 5)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

func (r *inProcess) query(c *cqlclient.Conn, text string) *cqlclient.Answer {
	r.t.Helper()
	a, err := send(c, text, cqlclient.Options{})
	if err != nil {
		r.t.Fatalf("%s: %v", text, err)
	}
	return a
}

// queryAll executes a statement at consistency level ALL.
func (r *inProcess) queryAll(c *cqlclient.Conn, text string) {
	r.t.Helper()
	if _, err := send(c, text, cqlclient.Options{Consistency: 5}); err != nil {
		r.t.Fatalf("%s: %v", text, err)
	}
}

// refused is an error response of the server.
type refused struct{ answer *cqlclient.Error }

func (r *refused) Error() string { return r.answer.Error() }

// send executes a statement. A *refused is the server's error; other errors come from the connection.
func send(c *cqlclient.Conn, text string, o cqlclient.Options) (*cqlclient.Answer, error) {
	a, err := c.Query(text, o)
	if err == nil && a.Err != nil {
		err = &refused{a.Err}
	}
	return a, err
}

// tables returns a client of a node's Tables port.
func (r *inProcess) tables(i int) *client.Client {
	r.t.Helper()
	c, err := client.New("http://"+r.nodes[i].opts.TablesListener().String(), azuretables.DevelopmentAccount,
		azuretables.DevelopmentKey, 1)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

// storage returns the storage id of a table.
func (r *inProcess) storage(keyspace, name string) schema.StorageID {
	return r.nodes[0].cluster.Metadata().Schema.Table(keyspace, name).StorageID
}

// tableOf returns the storage id of k.t or of the Azure table races.
func (r *inProcess) tableOf(name string) schema.StorageID {
	if name == "races" {
		return r.storage(azuretables.DevelopmentAccount, name)
	}
	return r.storage("k", "t")
}

// ask sends a request to a node's Tables port.
func (r *inProcess) ask(c *client.Client, req client.Request) (status int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	resp, err := c.Do(ctx, req)
	if err != nil {
		return 0, err
	}
	if resp.Status >= 500 {
		r.t.Logf("%s %s: %d %s", req.Method, req.Path, resp.Status, resp.Body)
	}
	return resp.Status, nil
}

// fill writes rows 0 to n-1 of k.t (a int PRIMARY KEY, v int) at ALL, so that a read at ONE finds them.
func (r *inProcess) fill(c *cqlclient.Conn, replication string, n int) {
	r.t.Helper()
	r.query(c, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': "+
		""+replication+"}")
	r.query(c, "CREATE TABLE k.t (a int PRIMARY KEY, v int)")
	for i := range n {
		r.queryAll(c, fmt.Sprintf("INSERT INTO k.t (a, v) VALUES (%d, %d)", i, i))
	}
}
