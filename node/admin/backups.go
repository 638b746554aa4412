package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/backup"
	"cqld/backup/schedule"
	"cqld/cluster"
	"cqld/cluster/metadata"
	"cqld/internal/cputime"
	"cqld/internal/env"
	"cqld/internal/release"
	"cqld/jobs"
	"cqld/node/archive"
	"cqld/node/backups"
	"cqld/node/control"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/index"
)

// Backups makes, lists, verifies, deletes and restores backups of the cluster. The node that an operator asks leads;
// all nodes take part.
type Backups struct {
	node *backups.Node
	// archive stores the log of this node; nil without backup_log.
	archive *archive.Archive
	log     storage.Log
	stores  backup.Places
	jobs    *Jobs
	now     func() time.Time

	cluster *cluster.Cluster
	// Scheduler executes the schedules of the cluster while this node is the first one. The node calls its Run.
	Scheduler *backups.Scheduler
}

// openBackups opens the backups of the node, and lets other nodes ask it for its part of a backup.
func (c *Commands) openBackups(o Options) error {
	// Locations are outside of the data directory, and not on its file system.
	i, stores := o.Instance, backup.Places{Disk: o.Config.BackupFS, Keys: o.BackupKeys,
		Memory: backup.NewMemory(o.Config.Memory.Division.Backup())}
	if stores.Disk == nil {
		stores.Disk = vfs.Default
	}
	node, err := backups.New(backups.Options{Dir: o.Config.DataDir, Disk: o.Config.FS,
		Open:    stores.Open,
		Cluster: i.Cluster, ProposeSchema: i.Cluster.ProposeSchema, ProposeRoles: i.Cluster.ProposeRoles,
		Engine: i.Engine, Flush: i.Engine.FlushUntil, Truncations: i.Local.Truncations(), Repaired: i.Repaired,
		Changed: i.Local.Changed, DropGrace: o.DropGrace,
		Unbuilt: func(table schema.StorageID) bool {
			pending := i.Values.Pending([]schema.StorageID{table})
			return slices.ContainsFunc(pending, func(w index.Work) bool { return !w.Drop })
		},
		Lacks: func() []string { return lacking(i.Engine.Lost(), i.Engine.Corruptions(), c.Catalog.schema()) },
		Stamp: o.Stamp, Clock: o.Jobs.Clock, Await: env.AwaitChannel, Run: o.Jobs.Run, Lifetime: o.Jobs.Lifetime,
		Rate: o.Config.Background.StreamThroughput, Busy: new(cputime.Gauge).Busy, Ask: c.Peers.askBackup,
		Name: o.Config.ClusterName, ID: func() string { return ClusterID(i.Cluster.Metadata()) },
		Build: release.Build(), Log: o.Log})
	c.Backups = &Backups{node: node, stores: stores, jobs: c.Jobs, now: o.Jobs.Clock.Now,
		cluster: i.Cluster}
	c.Backups.Scheduler = backups.NewScheduler(backups.SchedulerOptions{
		Schedules: func() []metadata.BackupSchedule { return i.Cluster.Metadata().BackupSchedules },
		First:     o.First, Cluster: func() string { return ClusterID(i.Cluster.Metadata()) }, Open: stores.Open,
		Start: c.Backups.startScheduled, Clock: o.Jobs.Clock, Log: o.Log})
	// The archive uses the same locations and keys as backups: a restoration reads both at one place.
	c.Backups.log = storage.LogOf(i.Engine)
	if location := o.Config.CommitLog.Archive; location != "" {
		c.Backups.archive = archive.New(archive.Options{Log: c.Backups.log,
			Open: func() (*backup.Store, error) { return stores.Open(location) },
			Owner: func() (backup.LogOwner, bool) {
				m := i.Cluster.Metadata()
				return backup.LogOwner{Cluster: ClusterID(m), Host: i.Cluster.HostID().String()}, len(m.Secret) > 0 &&
					i.Cluster.Self() != 0
			},
			Metadata: i.Cluster.Metadata, Stamp: o.Stamp, Clock: o.Jobs.Clock, Await: env.AwaitChannel,
			Logger: o.Log})
	}
	c.Peers.backups, c.Peers.overdue = node.Serve, c.Backups.Overdue
	return err
}

// Archive stores the log of this node, if that is configured, until ctx ends. It is called when the log of the metadata
// was replayed: before that, the node applies states of its past, which it has archived then.
func (b *Backups) Archive(ctx context.Context) {
	if b.archive != nil {
		b.archive.Run(ctx)
	}
}

// Archived returns what was archived of the log of this node. ok is false without backup_log. kept is how many bytes of
// the log are on disk for the archive only.
func (b *Backups) Archived() (s archive.Stats, kept int64, ok bool) {
	if b.archive == nil {
		return s, 0, false
	}
	return b.archive.Stats(), b.log.Kept().Bytes, true
}

// Memory returns how many bytes backups, restorations and the archived log use on this node.
func (b *Backups) Memory() int64 { return b.stores.Memory.Used() }

// createArgs are the stored arguments of a job that makes a backup. Records of jobs keep their form: a later process
// reads them.
type createArgs struct {
	control.BackupArgs
	Job string `json:"job"` // the same for all attempts
}

// Create makes a backup, as a job, and returns what is in the store then. An operator who disconnects leaves the job
// running.
func (b *Backups) Create(ctx context.Context, a control.BackupArgs, report control.Report) (out control.Backup,
	err error) {
	// Without a name, the time is the name.
	if a.Name == "" {
		a.Name = b.now().UTC().Format("20060102T150405Z")
	}
	args := createArgs{a, rand.Text()}
	if err := b.node.Check(args.creation("")); err != nil {
		return out, invalidBackup(err)
	}
	target := "everything"
	if len(a.Tables) > 0 {
		target = strings.Join(a.Tables, ", ")
	}
	target = fmt.Sprintf("%s, %s to %s", a.Name, target, a.Location)
	if err := b.jobs.start(ctx, jobs.Backup, target, jobs.Bytes, args, b.createWork(args), report); err != nil {
		return out, err
	}
	err = b.with(a.Location, func(s *backup.Store) error {
		m, err := s.Manifest(ctx, a.Name)
		if err == nil {
			out = shownBackup(&backup.Listed{Name: a.Name, Manifest: m, Job: m.Job})
		}
		return err
	})
	return out, err
}

// creation returns the arguments for an attempt.
func (a *createArgs) creation(task string) *backups.Creation {
	return &backups.Creation{Location: a.Location, Name: a.Name, Scope: a.Tables, Job: a.Job, Task: task}
}

// createWork returns the work of a job that makes a backup. A new attempt stores only what is missing.
func (b *Backups) createWork(a createArgs) jobWork {
	return func(ctx context.Context, j *jobs.Job) error {
		_, err := b.node.Create(ctx, a.creation(rand.Text()), j.Progress)
		return err
	}
}

// with calls f with the store at a location. Its errors have codes of the control protocol.
func (b *Backups) with(location string, f func(*backup.Store) error) error {
	s, err := b.stores.Open(location)
	if err != nil {
		return invalidBackup(err)
	}
	if err := f(s); err != nil {
		return refusedBackup(err)
	}
	return nil
}

// invalidBackup returns the error of arguments that are wrong.
func invalidBackup(err error) error {
	return &control.Error{Code: control.Invalid, Message: err.Error()}
}

// refusedBackup returns the error of an operation that is not possible, unless the client has disconnected. Its message
// contains no credentials: locations have none.
func refusedBackup(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &control.Error{Code: control.Refused, Message: err.Error()}
}

// List returns the backups at a location, or the one with a name.
func (b *Backups) List(ctx context.Context, a control.BackupArgs, _ control.Report) (out control.Backups, err error) {
	out.Backups = []control.Backup{}
	err = b.with(a.Location, func(s *backup.Store) error {
		all, err := s.List(ctx)
		var clusters []string
		if err == nil {
			clusters, err = s.Logs().Clusters(ctx)
		}
		for i := range all {
			if a.Name != "" && a.Name != all[i].Name {
				continue
			}
			shown := shownBackup(&all[i])
			m := all[i].Manifest
			if m != nil && all[i].Deleted.IsZero() && slices.Contains(clusters, m.ClusterID) && (a.Name != "" ||
				!slices.ContainsFunc(all[i+1:], func(l backup.Listed) bool {
					return l.Manifest != nil && l.Deleted.IsZero() && l.Manifest.ClusterID == m.ClusterID
				})) {
				b.moments(ctx, s, m, &shown)
			}
			out.Backups = append(out.Backups, shown)
		}
		if err == nil && a.Name != "" && len(out.Backups) == 0 {
			err = fmt.Errorf("%w: %s", backup.ErrNoBackup, a.Name)
		}
		return err
	})
	return out, err
}

// moments says until when moments can be restored with a backup. It reads parts of files and lists of segments, and is
// therefore not called for all backups of a list. A failure is shown with the backup and hides nothing else.
func (b *Backups) moments(ctx context.Context, s *backup.Store, m *backup.Manifest, out *control.Backup) {
	var err error
	if out.MomentsUntil, err = b.node.Moments(ctx, s, m); err != nil {
		out.NoMoments = err.Error()
	}
}

// shownBackup returns a backup in the form of the control protocol. A backup without a manifest has its name and its
// problem only.
func shownBackup(l *backup.Listed) control.Backup {
	out := control.Backup{Name: l.Name, Problem: l.Problem}
	if !l.Deleted.IsZero() {
		out.Deleted = &l.Deleted
	}
	_, out.Schedule, _, _ = schedule.ParseJob(l.Job)
	m := l.Manifest
	if m == nil {
		return out
	}
	out.Created, out.Ended, out.Cluster, out.Build = m.Created, m.Ended, m.Cluster, m.Build
	out.Tables, out.HybridTime, out.Nodes = m.Scope, m.HybridTime, len(m.Shares)
	out.Size, out.Stored = m.Bytes()
	for _, share := range m.Shares {
		out.Files += len(share.Files)
		for _, text := range share.Lacks {
			out.Lacks = append(out.Lacks, fmt.Sprintf("node %s: %s", share.Host, text))
		}
	}
	return out
}

// Verify reads all of a backup and compares it with its manifest.
func (b *Backups) Verify(ctx context.Context, a control.BackupArgs, report control.Report) (out control.Verified,
	err error) {
	v, err := b.node.Verify(ctx, a.Location, a.Name, func(done, total int64) {
		report(control.Progress{What: "verifying " + a.Name, Done: done, Total: total, Bytes: true})
	})
	if err != nil {
		return out, refusedBackup(err)
	}
	return control.Verified{Files: v.Objects, Problems: v.Problems}, nil
}

// Delete deletes a backup, and removes the backups that were deleted longer ago than the grace. It is no job: marks and
// files are removed one by one, and a repeated command continues.
func (b *Backups) Delete(ctx context.Context, a control.DeleteBackupArgs, _ control.Report) (out control.SweptBackups,
	err error) {
	out.Removed = []string{}
	err = b.with(a.Location, func(s *backup.Store) error {
		now := b.now().UTC()
		if err := s.Delete(ctx, a.Name, now); err != nil {
			return err
		}
		grace := backup.Grace
		if a.Grace != nil {
			grace = *a.Grace
		}
		swept, err := s.Sweep(ctx, now, grace)
		out.Removed = append(out.Removed, swept.Backups...)
		out.Objects, out.Segments, out.Bytes, out.Kept = swept.Objects, swept.Segments, swept.Bytes, swept.Kept
		return err
	})
	return out, err
}

// restoreArgs are the stored arguments of a job that restores tables.
type restoreArgs struct {
	control.RestoreArgs
	Seed string `json:"seed"` // the same for all attempts
}

// restoration returns the arguments for an attempt.
func (a *restoreArgs) restoration(task string) *backups.Restoration {
	return &backups.Restoration{Location: a.Location, Name: a.Name, Scope: a.Tables, At: a.At, As: a.As,
		Fit: a.FitReplication, Replace: a.Replace, Seed: a.Seed, Task: task}
}

// Restore restores tables of a backup, as a job, or says what that would do.
func (b *Backups) Restore(ctx context.Context, a control.RestoreArgs, report control.Report) (out control.Restored,
	err error) {
	args := restoreArgs{a, rand.Text()}
	r := args.restoration("")
	var p *backups.Planned
	err = b.with(a.Location, func(s *backup.Store) (err error) {
		p, err = b.node.Plan(ctx, s, r)
		return err
	})
	if err != nil {
		return out, err
	}
	out = shownRestoration(p)
	out.At = a.At
	if a.DryRun {
		return out, nil
	}
	// The newest backup may be another one when the job is resumed.
	args.Name = r.Name
	target := fmt.Sprintf("%d tables of %s at %s", len(p.Targets), r.Name, a.Location)
	if a.At != 0 {
		target = fmt.Sprintf("%d tables of %s from %s at %s", len(p.Targets), backup.Moment(a.At), r.Name, a.Location)
	}
	if a.Replace {
		target += ", in place of the tables that exist"
	}
	return out, b.jobs.start(ctx, jobs.Restore, target, jobs.Bytes, args, b.restoreWork(args), report)
}

// restoreWork returns the work of a job that restores tables. The identifiers of the tables follow from the seed in the
// arguments, so that a new attempt finds its tables. A new attempt creates the tables that are missing, and
// reads all rows again, unless the tables replace others and have all rows.
func (b *Backups) restoreWork(a restoreArgs) jobWork {
	return func(ctx context.Context, j *jobs.Job) error {
		r := a.restoration(rand.Text())
		r.Loaded = string(j.Checkpoint()) == loadedCheckpoint
		r.NoteLoaded = func() { j.SetCheckpoint([]byte(loadedCheckpoint)) }
		return b.node.Restore(ctx, r, j.Progress)
	}
}

// loadedCheckpoint is the checkpoint of a restoration that replaces tables, when it has restored all rows.
const loadedCheckpoint = "loaded"

// shownRestoration returns a plan in the form of the control protocol.
func shownRestoration(p *backups.Planned) control.Restored {
	out := control.Restored{Name: p.Manifest.Name, Created: p.Manifest.Created, Bytes: p.Bytes, Lacks: p.Lacks,
		NodeBytes: p.NodeBytes, Rate: p.Rate, Estimate: p.Estimate, Changes: p.SchemaChanges(), Roles: p.Roles,
		Tables: []control.RestoredTable{}}
	for _, t := range p.Targets {
		out.Tables = append(out.Tables, control.RestoredTable{From: t.Keyspace + "." + t.Name,
			Into: t.Into + "." + t.As, Replaces: p.Replaces(t)})
	}
	return out
}
