package admin

import (
	"encoding/json"
	"log/slog"
	"time"

	"cqld/audit"
	"cqld/cluster/metadata"
	"cqld/jobs"
	"cqld/messaging"
	"cqld/node/access"
	"cqld/node/assembly"
	"cqld/node/certificates"
	"cqld/node/clients"
	"cqld/node/config"
	"cqld/node/control"
	"cqld/node/tablestats"
	"cqld/repair"
	"cqld/schema"
	"cqld/storage/encryption"
	"cqld/storage/index"
)

// Options configure New. All fields are required. New keeps the parts, which must outlive Commands.
type Options struct {
	Config       *config.Options
	Instance     *assembly.Instance
	Transport    *messaging.StreamTransport
	Tables       *tablestats.Engine
	Estimates    *tablestats.Estimates
	Servers      *clients.Servers
	Certificates *certificates.Set
	Access       *access.Access
	Audit        *audit.Log
	Jobs         JobsOptions
	BackupKeys   *encryption.Keys      // nil: new backups are in clear
	Memory       func() control.Memory // what the parts of the node use
	First        func() bool           // whether the node does what one live member should do
	Stamp        func() int64          // the hybrid clock, in microseconds
	DropGrace    func() time.Duration  // how long tables that are dropped now can be restored
	Refuse       func() error          // why clients are refused because of the clock, or nil
	Stop         func()                // requests that the process stops
	Started      time.Time             // when the node was started
	Log          *slog.Logger
}

// Commands are the operations of a node, by subject. Peers is not registered: it is the exchange of facts between
// nodes. They are the operations of one node; those that concern the cluster use its metadata or its members.
type Commands struct {
	Peers   *Peers
	Catalog Catalog

	Ring     *Ring
	Ranges   *Ranges
	Topology *Topology
	Movement *Movement
	Upgrade  *Upgrade

	Jobs    *Jobs
	Repairs *Repairs
	Data    *Data
	Indexes *Indexes

	Tables    *Tables
	Snapshots *Snapshots
	Imports   *Imports
	// Encryption is of stored data.
	Encryption *Encryption
	Backups    *Backups

	Roles    *Roles
	Accounts *Accounts
	Audit    *Audit

	Clients  *Clients
	Settings *Settings
	Status   *Status
	Activity *Activity
}

// New returns the operations of a node whose parts exist and do not run yet. Nothing is registered at the control port
// yet, and nothing of the node is changed, except that the remains of interrupted snapshots are removed.
func New(o Options) (*Commands, error) {
	i := o.Instance
	catalog, of := Catalog{i.Cluster}, members{i.Cluster}
	c := &Commands{Catalog: catalog, Peers: &Peers{cluster: i.Cluster, engine: i.Engine, values: i.Values,
		transport: o.Transport}}
	// openJobs refers to Topology.
	c.Topology = &Topology{cluster: i.Cluster, members: of, servers: o.Servers, run: o.Jobs.Run}
	if err := c.openJobs(o); err != nil {
		return nil, err
	}
	// The remaining groups are in the order of Commands.
	c.Ring = &Ring{options: o.Config, cluster: i.Cluster, members: of, peers: c.Peers}
	c.Ranges = &Ranges{cluster: i.Cluster, members: of, loads: i.Loads}
	c.Upgrade = &Upgrade{cluster: i.Cluster, members: of, peers: c.Peers, log: o.Log}
	c.Movement = &Movement{catalog: catalog, jobs: c.Jobs, drops: i.Drops, movements: i.Movements}
	c.Data = &Data{catalog: catalog, engine: i.Engine, jobs: c.Jobs, clock: o.Jobs.Clock}
	c.Repairs = &Repairs{catalog: catalog, members: of, jobs: c.Jobs, repairer: i.Repairer,
		losses: losses{catalog: catalog, engine: i.Engine, streams: i.Streams, log: o.Log}}
	c.Indexes = &Indexes{catalog: catalog, jobs: c.Jobs, peers: c.Peers, builder: i.Builder,
		builds: &builds{cluster: i.Cluster, engine: i.Engine, builder: i.Builder, registry: c.Jobs.registry,
			open: map[schema.StorageID]*build{}}}
	c.Tables = &Tables{catalog: catalog, engine: o.Tables, estimates: o.Estimates}
	c.Snapshots = &Snapshots{dir: o.Config.DataDir, name: o.Config.ClusterName, disk: o.Config.FS, catalog: catalog,
		engine: i.Engine, stamp: o.Stamp, clock: o.Jobs.Clock, auto: o.Config.Snapshots, lifetime: o.Jobs.Lifetime,
		log: o.Log}
	// The node can serve without the space that they take.
	if err := c.Snapshots.removeInterrupted(); err != nil {
		o.Log.Error("cannot remove an interrupted snapshot", "err", err)
	}
	c.Imports = &Imports{snapshots: c.Snapshots, jobs: c.Jobs, truncations: i.Local.Truncations(),
		changed: i.Local.Changed, repaired: i.Repaired, clock: o.Jobs.Clock,
		rate: o.Config.Background.StreamThroughput}
	c.Encryption = newEncryption(o.Config.DataDir, o.Config.FS, i.Engine, c.Jobs)
	if err := c.Encryption.removeInterrupted(); err != nil {
		o.Log.Error("cannot remove an interrupted rewrite", "err", err)
	}
	if err := c.openBackups(o); err != nil {
		return nil, err
	}
	c.Roles = &Roles{access: o.Access, cluster: i.Cluster, log: o.Log}
	c.Accounts = &Accounts{options: o.Config, access: o.Access, cluster: i.Cluster}
	c.Audit = &Audit{log: o.Audit, settings: o.Config.AuditSettings, logger: o.Log}
	c.Clients = &Clients{servers: o.Servers, engine: i.Engine, refuse: o.Refuse, log: o.Log}
	c.Settings = &Settings{options: o.Config, hints: i.Hints, certificates: o.Certificates, stop: o.Stop, log: o.Log}
	c.Status = &Status{config: o.Config, instance: i, members: of, peers: c.Peers, servers: o.Servers,
		certificates: o.Certificates, transport: o.Transport, memory: o.Memory, encryption: c.Encryption,
		started: o.Started}
	c.Activity = &Activity{instance: i, members: of, servers: o.Servers, indexes: c.Indexes, status: c.Status}
	// Jobs of these kinds can be resumed from their arguments, also by a later process.
	resumable(c.Jobs, jobs.Repair, func(a control.RepairArgs) jobWork { return c.Repairs.work(a, nil) })
	resumable(c.Jobs, jobs.Rebuild, c.Movement.rebuildWork)
	resumable(c.Jobs, jobs.Cleanup, c.Movement.cleanupWork)
	resumable(c.Jobs, jobs.Compaction, c.Data.compactionWork)
	resumable(c.Jobs, jobs.Verification, func(a control.VerifyFilesArgs) jobWork {
		return c.Data.verificationWork(a, nil)
	})
	resumable(c.Jobs, jobs.Import, c.Imports.work)
	resumable(c.Jobs, jobs.KeyRotation, c.Encryption.rotationWork)
	resumable(c.Jobs, jobs.Backup, c.Backups.createWork)
	resumable(c.Jobs, jobs.Restore, c.Backups.restoreWork)
	return c, nil
}

// openJobs opens the registry of jobs. Storage is already open. A job that was running when the process ended is
// listed as interrupted.
func (c *Commands) openJobs(o Options) error {
	i := o.Instance
	// The store of jobs is the storage engine, so the registry is opened with the node.
	registry, err := jobs.Open(jobs.Options{Clock: o.Jobs.Clock, Store: i.Engine,
		Forgotten: func(s jobs.Snapshot) { forget(i.Repairer, i.Movements.ForgetRebuild, s, o.Log) },
		OnError:   func(err error) { o.Log.Warn("job not stored", "err", err) }})
	c.Jobs = &Jobs{o: o.Jobs, registry: registry, topology: c.Topology,
		works: map[jobs.Kind]func(json.RawMessage) (jobWork, error){},
		// The shown jobs of ring operations begin only when the metadata log was replayed.
		ring: &ringJobs{cluster: i.Cluster, movements: i.Movements, registry: registry, log: o.Log}}
	return err
}

// forget removes what a job stored for its next attempt. Ended jobs of other kinds store nothing for a next attempt.
func forget(repairer *repair.Repairer, forgetRebuild func(string) error, s jobs.Snapshot, log *slog.Logger) {
	var err error
	switch s.Kind {
	case jobs.Repair:
		err = repairer.ForgetTables(s.ID)
	case jobs.Rebuild:
		err = forgetRebuild(s.ID)
	}
	// A position that remains costs space and does no harm.
	if err != nil {
		log.Warn("positions of an ended job not removed", "job", s.ID, "err", err)
	}
}

// Replayed is called when the metadata log was replayed: then the operations of the ring are shown as jobs.
func (c *Commands) Replayed() { c.Jobs.ring.begin(c.Topology.cluster.Metadata().Topology) }

// MetadataChanged updates the jobs of operations of the ring and of builds to new metadata. The jobs follow the newest
// version, whichever versions lie between.
func (c *Commands) MetadataChanged(now *metadata.Metadata) {
	// It is called after every change of the metadata.
	c.Jobs.ring.follow(now.Topology)
	c.Indexes.builds.retain(now.Schema)
	if c.Backups.archive != nil {
		c.Backups.archive.MetadataChanged(now)
	}
}

// Built is called after each step of the build of an index. An error is the error of the step, not of the build.
func (c *Commands) Built(w index.Work, err error) { c.Indexes.builds.worked(w, err) }
