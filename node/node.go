package node

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/audit"
	"cqld/batchlog"
	"cqld/cluster"
	"cqld/cluster/metadata"
	"cqld/coordinator"
	"cqld/hints"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/internal/memory"
	"cqld/messaging"
	"cqld/node/access"
	"cqld/node/admin"
	"cqld/node/assembly"
	"cqld/node/certificates"
	"cqld/node/clients"
	"cqld/node/config"
	"cqld/node/control"
	"cqld/node/datadir"
	"cqld/node/metrics"
	"cqld/node/notify"
	"cqld/node/operation"
	"cqld/node/recorder"
	"cqld/node/tablestats"
	"cqld/query"
	"cqld/repair"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/search"
	"cqld/server"
	"cqld/storage"
	"cqld/storage/database"
	"cqld/storage/encryption"
	"cqld/storage/index"
	"cqld/tlsconfig"
)

// Node is one running node. Open creates it and Close ends it; a closed node cannot be opened again. Fields are set
// while it opens, in the order of the parts, and do not change later.
type Node struct {
	// opts must not be changed: several parts have pointers to it.
	opts   config.Options // with defaults and divided memory
	faults faults
	log    *slog.Logger
	clock  env.Clock
	hlc    *env.HLC // the timestamps of writes; follows the clocks of peers

	instance  *assembly.Instance
	engine    *storage.Engine
	transport *messaging.StreamTransport
	cluster   *cluster.Cluster
	parts     *assembly.Parts
	commands  *admin.Commands
	metrics   *metrics.Collector
	processor *query.Processor
	traces    *query.TraceBudget
	// returning decides whether a changed place or number of tokens is an error.
	returning     bool // this node was a member when it started
	servers       *clients.Servers
	notifier      *notify.Notifier
	measured      *tablestats.Engine
	estimates     *tablestats.Estimates
	executors     struct{ cql, tables *request.Executor }
	room          *memory.Pool     // of writes that wait for the disk
	answered      operation.Counts // requests of Azure Tables that were answered
	control       *control.Server
	probes        probes
	audit         *audit.Log
	certificates  certificates.Set
	started       time.Time
	stopOnce      sync.Once
	stopRequested chan struct{} // closed when an operator has asked the process to stop
	memory        *memory.Pool  // of the requests of clients
	access        *access.Access

	// The first failure stays until the process receives it.
	failed   chan error      // capacity 1: why the node must stop
	lifetime context.Context // ends when the node stops
	cancel   context.CancelFunc
	stopping <-chan struct{} // closed when the node stops
	running  workGroup       // goroutines that Close waits for
	guard    *guard.Guard

	// mu guards the callback of OnStatus.
	mu struct {
		sync.Mutex
		onStatus func()
	}
}

// replicationFactor is the default of keyspaces that name none, limited to the number of nodes. Tokens are allocated
// for this factor.
const replicationFactor = 4

// Open starts a node. When it returns, the node is a member, and clients can connect unless it is still joining. ctx
// bounds only the start. An error means that nothing is left running. Clients of a joining node can connect once it has
// its data (serveWhenJoined). opts need names that are resolved; memory is divided here if the caller has not done so.
func Open(ctx context.Context, opts config.Options) (*Node, error) {
	return open(ctx, opts, faults{})
}

// open is Open for tests of this package.
func open(ctx context.Context, opts config.Options, f faults) (*Node, error) {
	// The options are complete from here on: names were resolved by the caller.
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if err := opts.DivideMemory(memory.Local()); err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	// Tests have a file system in memory, which has no permissions to restrict.
	if opts.FS == nil {
		opts.FS = vfs.Default
		if err := datadir.MakePrivate(opts.DataDir, opts.Logger); err != nil {
			return nil, err
		}
	}
	if err := openEncryption(ctx, &opts); err != nil {
		return nil, err
	}
	n := &Node{opts: opts, faults: f, log: opts.Logger, started: time.Now(), failed: make(chan error, 1),
		stopRequested: make(chan struct{}), memory: newRequestMemory(&opts), room: newRoom(&opts)}
	// Logged before anything is opened, so that they are in the log of a failed start, too.
	for _, w := range append(opts.Insecurities(), opts.Warnings...) {
		n.log.Warn("configuration", "problem", w)
	}
	n.guard = guard.New(n.log)
	n.running.guard, n.clock = n.guard, newClock(opts, n.guard)
	// The function is called by traced requests, when the cluster and the engine exist.
	n.traces = &query.TraceBudget{Max: opts.TraceBytesMax, Size: func() (int64, bool) {
		return traceBytes(n.cluster, n.engine)
	}, Clock: n.clock}
	n.hlc = env.NewHLC(n.clock, peerClockAheadMax)
	n.servers = n.newServers()
	// Close works for a node that has been opened in part.
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(err, n.Close(context.Background()))
	}
	return n, nil
}

// open opens the parts in the order in which they depend on each other.
func (n *Node) open(ctx context.Context) (err error) {
	// The parent of background is not ctx, which bounds only the start.
	background, cancel := context.WithCancel(context.Background())
	n.lifetime, n.cancel, n.stopping = background, cancel, background.Done()
	// The audit log is first, so that logins and operations are recorded from the beginning.
	if err := n.openAudit(); err != nil {
		return err
	}
	// Supervisors see the node while logs are replayed, which may take long.
	if err := n.probes.open(n.opts.Listen.HealthAddress, n.servers.Ready, n.log); err != nil {
		return err
	}
	if err := n.certificates.Open(&n.opts, tlsconfig.Options{Clock: n.clock, Logger: n.log,
		Guard: n.guard}); err != nil {
		return err
	}
	if err := n.openTransport(); err != nil {
		return err
	}
	o, err := n.opening()
	if err != nil {
		return err
	}
	// The loop of the metadata runs from here on; without it, the node cannot work.
	o.Begin = func() {
		n.probes.beating.Store(n.cluster)
		n.running.Critical(n.fail, func() {
			if err := n.cluster.Run(background); err != nil {
				n.fail(err)
			}
		})
	}
	n.instance, err = assembly.Open(o)
	if err != nil {
		n.engine, n.cluster = n.instance.Engine, n.instance.Cluster // for Close; nothing runs yet
		return err
	}
	if err := n.instance.Join(ctx); err != nil {
		return err
	}
	// A node with a wrong place must not serve clients, but is a member already.
	if err := n.checkMember(); err != nil {
		return err
	}
	return n.serveWhenJoined()
}

// stored is called when storage is open. It is the first callback of assembly.Open, so Close finds the engine even if a
// later step fails.
func (n *Node) stored(i *assembly.Instance) error {
	n.engine = i.Engine
	n.measured = tablestats.NewEngine(i.Engine, n.clock)
	return nil
}

// assembled is called when all parts exist, before they are used. Nothing serves requests yet: ports for operators and
// nodes are opened by listen, ports for clients by openServer.
func (n *Node) assembled(i *assembly.Instance) error {
	n.cluster, n.parts = i.Cluster, i.Parts
	n.estimates = tablestats.NewEstimates(tablestats.EstimatesOptions{Cluster: n.cluster, Engine: n.engine,
		Clock: n.clock, Log: n.log})
	var err error
	n.access, err = access.New(access.Options{Settings: &n.opts.Access, Datacenter: n.opts.Datacenter,
		DataDir: n.opts.DataDir, Local: encryption.Below(n.opts.FS) == vfs.Default, Cluster: n.cluster,
		Clock: n.clock, Log: n.log, OnLogin: recorder.New(n.audit).Login})
	if err != nil {
		return err
	}
	n.notifier = notify.New(notify.Options{Cluster: n.cluster, Servers: n.servers,
		Reaches: func(m *ring.Node) bool { return acceptsClients(n.opts.Network, m) },
		Run:     n.running.Go, Stopping: n.stopping})
	n.openExecutors()
	// A node with an id in its metadata has been a member before. It keeps its place and its tokens.
	n.returning = n.cluster.Self() != 0
	identity := datadir.Identity{Dir: n.opts.DataDir, Engine: n.engine, Disk: n.cluster.DiskID(), Member: n.returning}
	// Before the disk is checked, whose error could not name the snapshot.
	if err := n.checkRestored(); err != nil {
		return err
	}
	// A copy of a data directory would be a second node with the same identity.
	if err := identity.CheckDisk(); err != nil {
		return err
	}
	if err := identity.CheckPlace(n.place()); err != nil {
		return err
	}
	backupKeys, err := loadBackupKeys(n.lifetime, &n.opts)
	if err != nil {
		return err
	}
	n.commands, err = admin.New(admin.Options{
		Config: &n.opts, Instance: i, Transport: n.transport, Tables: n.measured, Estimates: n.estimates,
		Servers: n.servers, Certificates: &n.certificates, Access: n.access, Audit: n.audit,
		Jobs: admin.JobsOptions{Clock: n.clock, Guard: n.guard, Lifetime: n.lifetime, Run: n.running.Go, Log: n.log},
		// The collector is created below, and the function is called only later.
		Memory: func() control.Memory { return n.metrics.MemoryUse() }, Refuse: n.clockRefusal, Started: n.started,
		Stamp: n.hlc.Next, Log: n.log, BackupKeys: backupKeys, First: droppedTables{n}.first,
		DropGrace: droppedTables{n}.grace, Stop: func() { n.stopOnce.Do(func() { close(n.stopRequested) }) },
	})
	if err != nil {
		return err
	}
	n.metrics = metrics.New(metrics.Options{
		Config: &n.opts, Instance: i, Transport: n.transport, Servers: n.servers, Certificates: &n.certificates,
		Access: n.access, Audit: n.audit, Tables: n.measured, Commands: n.commands, CQL: n.executors.cql,
		AzureTables: n.executors.tables, Answered: &n.answered, Memory: n.memory, Room: n.room, Guard: n.guard,
		Traces: n.traces, Functions: n.functionStats, Clock: n.clock,
	})
	// Peers may ask as soon as the transport is open (listen).
	n.commands.Peers.Serve()
	return nil
}

// place returns the configured place of this node.
func (n *Node) place() datadir.Place {
	return datadir.Place{Cluster: n.opts.ClusterName, Datacenter: n.opts.Datacenter, Rack: n.opts.Rack}
}

// checkMember compares the configuration with the entry of this node in the metadata. An entry is missing while the
// node has not joined.
func (n *Node) checkMember() error {
	own := n.cluster.Metadata().Topology.Node(n.cluster.Self())
	if own == nil {
		return nil
	}
	member := datadir.Place{Cluster: n.opts.ClusterName, Datacenter: own.Datacenter, Rack: own.Rack}
	// A new node has just written its entry; only a returning one may have other tokens in its configuration.
	if err := member.Check(n.place()); err != nil || !n.returning {
		return err
	}
	return datadir.CheckTokens(own, n.opts.Join.NumTokens)
}

// listen opens the ports for operators and other nodes. It is called when the metadata log was replayed, so operations
// and handshakes see the members.
func (n *Node) listen() error {
	if err := n.acceptRestored(); err != nil {
		return err
	}
	n.commands.Replayed()
	n.running.Go(func() { n.commands.Snapshots.Watch(n.stopping) })
	n.running.Go(droppedTables{n}.watch)
	n.running.Go(func() { n.probes.runSchedules(n.lifetime, n.commands.Backups) })
	n.running.Go(func() { n.commands.Backups.Archive(n.lifetime) })
	if err := n.openControl(); err != nil {
		return err
	}
	// Connections of revoked certificates are closed while the node runs.
	if n.certificates.Nodes != nil {
		n.running.Go(func() { n.certificates.WatchRevocations(n.stopping, n.transport.CloseRevoked) })
	}
	return n.transport.Open()
}

// openTransport creates the transport, which connects to no node before listen. The functions use n.cluster, which is
// set before the transport delivers anything.
func (n *Node) openTransport() error {
	security, err := internodeSecurity(&n.opts, n.certificates.Nodes,
		// The metadata is read for each handshake, when the cluster exists.
		func() *metadata.Metadata { return n.cluster.Metadata() })
	if err != nil {
		return err
	}
	warning := &stampWarning{clock: n.clock, log: n.log}
	n.transport = messaging.NewStreamTransport(messaging.Options{
		Cluster: n.opts.ClusterName, Listen: n.opts.Internode(), Network: n.opts.Network, Logger: n.log,
		Limits: messagingLimits(&n.opts), Guard: n.guard,
		Security: security,
		// Every frame carries the sender's newest timestamp, so that clocks of nodes follow each other.
		Stamp: n.hlc.Last,
		Observe: func(stamp int64) {
			if err := n.hlc.Observe(stamp); err != nil {
				warning.warn()
			}
		},
		Connected:  func(id ring.NodeID, up bool) { n.cluster.StreamChanged(id, up) },
		Superseded: func(notice string) { n.cluster.Superseded(notice) },
	})
	return nil
}

// peerClockAheadMax is how far the node's timestamps follow the clocks of other nodes. They never follow the timestamps
// of clients.
const peerClockAheadMax = time.Minute

// stampWarnEvery is the minimum interval of the warning that a peer's timestamps are ignored, because every frame
// contains one.
const stampWarnEvery = 10 * time.Second

// stampWarning logs that a peer's clock is too far ahead, at most once in stampWarnEvery.
type stampWarning struct {
	clock env.Clock
	log   *slog.Logger
	last  atomic.Int64 // monotonic ns
}

// warn logs, unless another goroutine has done so shortly before.
func (w *stampWarning) warn() {
	now, last := int64(w.clock.Monotonic()), w.last.Load()
	// Only the goroutine that replaces last logs. Zero means that nothing was logged yet.
	if (last == 0 || now-last >= int64(stampWarnEvery)) && w.last.CompareAndSwap(last, max(now, 1)) {
		w.log.Warn("a peer's clock is too far ahead; its timestamps are ignored")
	}
}

// opening returns the options of the assembly. It makes the directories durable first, so that their files cannot
// vanish with a power failure.
func (n *Node) opening() (o assembly.Opening, err error) {
	// Rows and metadata are two databases in directories of their own.
	for _, dir := range []string{datadir.Rows, datadir.Metadata} {
		if err := datadir.MakeDurable(n.opts.FS, filepath.Join(n.opts.DataDir, dir)); err != nil {
			return o, fmt.Errorf("node: make the directory of %s: %w", dir, err)
		}
	}
	// Before the engine opens the data, and changes it.
	if err := n.checkCopy(); err != nil {
		return o, err
	}
	return assembly.Opening{
		Storage: n.storageOptions(), Cluster: n.clusterOptions(), Parts: n.partsOptions(), Transport: n.transport,
		Requests: func(*storage.Engine) assembly.RequestEngine { return n.requests() },
		Stored:   n.stored, Assembled: n.assembled, Listen: n.listen,
		Changed: n.metadataChanged, AliveChanged: n.aliveChanged,
		TableDropped: func(before *schema.Schema, id schema.StorageID) error { return tableDropped(n, before, id) },
		Retired:      n.servers.Leave, AutoRepair: n.opts.Background.AutoRepair,
		CPU: processorTime, Disk: diskOf(&n.opts), GraphBytes: &n.opts.Memory.VectorGraphBytes,
		AllGraphBytes: n.opts.Memory.Division.Part[memory.Graphs],
	}, nil
}

// storageOptions returns the options of the storage engine. A fatal error of the engine makes the node fail.
func (n *Node) storageOptions() storage.Options {
	sync := storage.SyncBatch
	if n.opts.CommitLog.Sync == config.SyncPeriodic {
		sync = storage.SyncPeriodic
	}
	return storage.Options{
		Archive: archived(n),
		Dir:     n.rows(), FS: n.opts.FS, Clock: n.clock, Logger: n.log, Sync: sync,
		SyncPeriod: n.opts.CommitLog.SyncPeriod, CacheBytes: n.opts.Memory.CacheBytes,
		RowCacheBytes: n.opts.Memory.RowCacheBytes, MemTableBytes: n.opts.Memory.MemTableBytes,
		PendingBytes: int(pendingBytes(&n.opts)), OnFatal: n.fail,
		Guard: n.guard,
		// A corrupt file is reported and taken out of use; it does not stop the node.
		OnCorruption: func(c database.CorruptionInfo) {
			n.log.Error("corrupt data is not served; run cqld ctl repair to restore it", "file", c.Path, "err",
				c.Err.Error())
		},
	}
}

// clusterOptions returns the options of the cluster, with the identity that this node requests.
func (n *Node) clusterOptions() cluster.Options {
	var seed [32]byte
	crand.Read(seed[:]) // never fails (crypto/rand)
	// Only host names need a lookup, which must not block the loop of the cluster.
	var lookUp func(func(cluster.SeedAddresses))
	if len(n.opts.Join.SeedNames) > 0 {
		lookUp = func(then func(cluster.SeedAddresses)) {
			n.running.Go(func() { lookUpSeeds(n.lifetime, &n.opts, then) })
		}
	}
	return cluster.Options{
		Name: n.opts.ClusterName, Dir: filepath.Join(n.opts.DataDir, datadir.Metadata), FS: n.opts.FS,
		Network: n.transport,
		Clock:   n.clock,
		Rand:    newSecureRand(seed), Logger: n.log, Seeds: n.opts.Join.Seeds, LookUpSeeds: lookUp,
		ReplicationFactor: replicationFactor, Base: schema.Initial(),
		Self: metadata.NodeSpec{Datacenter: n.opts.Datacenter, Rack: n.opts.Rack, Internode: n.opts.Internode(),
			Native: n.opts.Native(), NumTokens: n.opts.Join.NumTokens, Tokens: n.opts.Join.Tokens,
			Replace: n.opts.Join.Replace},
		Fatal: n.fail,
	}
}

// partsOptions returns the options of the parts that execute requests and background work. Limits that are zero keep
// the defaults of their packages.
func (n *Node) partsOptions() assembly.Options {
	return assembly.Options{
		Clock: n.clock, Run: func(f func()) { n.running.Go(f) }, Memory: n.memory,
		Coordinator: coordinator.Options{
			Guard: n.guard,
			Rand:  realRand{}, LocalDatacenter: n.opts.Datacenter, Stamps: n.hlc, Limits: coordinator.Limits{
				TruncationMost:     2 * n.opts.Timeouts.Truncate,
				WriteBytesInFlight: n.opts.Memory.Division.Part[memory.Writes]},
			OnError: func(err error) { n.log.Error("background work of the coordinator failed", "err", err) },
		},
		Hints: hints.Options{Limits: hints.Limits{Window: n.opts.Background.HintWindow}},
		Batches: batchlog.Options{Limits: batchlog.Limits{Bytes: min(n.opts.Memory.Division.BackgroundBlock(),
			batchlog.BytesMax)}},
		Builder: search.BuilderLimits{BuildThroughput: n.opts.Background.IndexBuildThroughput},
		Worked:  func(w index.Work, err error) { n.commands.Built(w, err) },
		Streams: streamLimits(&n.opts),
		Repair:  repair.Limits{BytesPerSecond: n.opts.Background.RepairThroughput},
		AutoRepair: repair.AutoOptions{Rand: realRand{}, Interval: n.opts.Background.AutoRepairInterval,
			Note: func(message string, err error) {
				if err != nil {
					n.log.Warn(message, "err", err)
					return
				}
				n.log.Info(message)
			}},
		Note: func(message string) { n.log.Info(message) }, Log: n.log,
	}
}

// openServer opens the ports for clients. The first superuser of the cluster is created before.
func (n *Node) openServer() error {
	if err := n.access.CreateSuperuser(n.lifetime); err != nil {
		return err
	}
	return n.servers.Open(func() { n.processor = n.newProcessor() })
}

// newProcessor returns what executes the statements of clients. It is made when the servers open for the first time;
// the cluster's secret and the roles are read at each use.
func (n *Node) newProcessor() *query.Processor {
	return query.New(query.Options{
		Executor: n.executors.cql, View: n.parts.View, Changer: n.cluster, Roles: n.access.Statements(),
		Virtual: n.virtualTables(), Clock: n.clock, Rand: realRand{},
		Timestamps: n.hlc, PageBytes: n.opts.ClientLimits.PageBytes,
		PagingKey: func() []byte { return n.cluster.Metadata().Secret }, Local: n.opts.Native(),
		SharedPaging: []byte(n.opts.PagingSecret),
		TraceBudget:  n.traces.Admit,
		Stored:       func(cmd *row.ReadCommand) ([]byte, error) { return n.engine.Read(nil, cmd) },
		Audit:        n.audit, ClusterName: n.opts.ClusterName, Estimate: n.estimates.OfCluster,
		IndexEntries: indexEntries(n.instance.Values), DynamicDataMasking: n.opts.DynamicDataMasking,
		Indexes:         n.opts.Indexes,
		Guardrails:      &n.opts.Guardrails,
		IsSuperuser:     func(role string) bool { return n.access.Roles().IsSuperuser(role) },
		NoUserFunctions: !n.opts.Functions.Enabled, FunctionLimits: n.opts.Functions.Limits,
		FunctionMemory: n.opts.Memory.Division.Part[memory.Functions], Guard: n.guard,
		DropCompactStorage: n.opts.DropCompactStorage,
		ViewsDisabled:      n.opts.ViewsDisabled,
		NodeLocal:          n.opts.Requests.NodeLocal,
		DropGrace:          droppedTables{n}.grace, Truncater: truncations{n},
		Timeouts: query.Timeouts{Read: n.opts.Timeouts.Read, Range: n.opts.Timeouts.Range, Write: n.opts.Timeouts.Write,
			CAS: n.opts.Timeouts.CAS, Counter: n.opts.Timeouts.Counter, Truncate: n.opts.Timeouts.Truncate},
		Limits: query.Limits{BatchWarnBytes: n.opts.Requests.BatchWarnBytes,
			BatchFailBytes:     n.opts.Requests.BatchFailBytes,
			TimestampAheadMax:  n.opts.Requests.MaxTimestampAhead,
			TimestampAheadWarn: n.opts.Requests.WarnTimestampAhead},
	})
}

// newServers returns the servers for clients, which are not open yet.
func (n *Node) newServers() *clients.Servers {
	// The functions are called when a server is opened, also again after an operator has closed it.
	return clients.New(clients.Options{
		CQL: n.cqlServer, Tables: n.tablesServer, Run: n.running.Go,
		Critical: func(serve func() error) {
			n.running.Critical(n.fail, func() {
				if err := serve(); err != nil {
					n.fail(err)
				}
			})
		},
		Member:         n.isMember,
		AwaitDeparture: func(ctx context.Context) error { return n.cluster.AwaitDeparture(ctx) },
		Refuse:         n.clockRefusal, Native: n.opts.Native(), Log: n.log,
	})
}

// cqlServer returns a CQL server and its listener. Each opening makes a new server. Limits and certificates are the
// configuration's.
func (n *Node) cqlServer() (*server.Server, net.Listener, error) {
	l, err := listenForClients(n.opts.Network, n.opts.NativeListener())
	if err != nil {
		return nil, nil, fmt.Errorf("node: listen for clients: %w", err)
	}
	s := server.New(server.Options{Processor: n.processor, Logger: n.log, Guard: n.guard,
		ReplicaAddress: func(id ring.NodeID) netip.Addr { return replicaAddress(n.cluster.Metadata().Topology, id) },
		TLS:            n.certificates.Server(n.opts.Encryption.Clients.Policy()),
		TLSOptional:    n.opts.Encryption.Clients.Optional,
		Limits:         serverLimits(&n.opts), Authenticator: n.access.Authenticator(), Memory: n.memory})
	n.log.Info("serving CQL clients", "address", n.opts.Native(), "encryption", n.opts.Encryption.Clients.String())
	return s, l, nil
}

// fail makes the node stop. Only the first error is kept. Further errors are usually consequences of the first.
func (n *Node) fail(err error) {
	select {
	case n.failed <- err:
	default:
	}
}

// Failed returns a channel that receives the reason if the node must stop.
func (n *Node) Failed() <-chan error { return n.failed }

// Close drains the requests of clients until ctx ends, then stops everything. It may be called for a node that was
// opened only in part, and returns the errors of all parts.
func (n *Node) Close(ctx context.Context) error {
	var errs []error
	// First, so that a supervisor's probe and clients know that the node is leaving.
	n.servers.Stopping()
	n.probes.beating.Store(nil)
	defer n.probes.close()
	if n.control != nil {
		n.control.Close()
	}
	// Jobs that run now are listed as interrupted by the next process.
	if n.commands != nil {
		n.commands.Jobs.Close()
	}
	// A node that has left the ring closes its clients' connections last (docs/adr/0016).
	if n.servers.Left() {
		n.servers.AwaitRetired(ctx)
	}
	errs = append(errs, n.servers.Close(ctx))
	n.audit.Close()
	var running request.StillRunning
	if err := errors.Join(errs...); errors.As(err, &running) {
		// What is acknowledged is on disk, so the process can end like this. Storage that is closed in use would panic.
		n.log.Error("requests did not end; storage is not closed", "requests", int(running))
		return err
	}
	if n.instance != nil {
		n.instance.Stop()
	}
	// From here on, nothing may start new work; what runs sees the end of lifetime.
	n.cancel()
	if n.transport != nil {
		n.transport.Close()
	}
	// Goroutines of the group end with lifetime.
	n.running.Wait()
	n.certificates.Close()
	// Storage is last: every other part uses it.
	if n.cluster != nil {
		errs = append(errs, n.cluster.Close())
	}
	if n.engine != nil {
		errs = append(errs, n.engine.Close())
	}
	return errors.Join(errs...)
}
