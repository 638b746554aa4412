package backups

import (
	"context"
	"log/slog"
	"time"

	"cqld/backup"
	"cqld/cluster/metadata"
	"cqld/internal/env"
	"cqld/node/archive"
	"cqld/node/backups"
	"cqld/storage"
)

// cluster is the identifier of each simulated cluster.
const cluster = "sim"

// beginArchive archives the log of a process until it ends, as node/admin does.
func (p *Process) beginArchive(s *store) {
	i := p.Instance
	p.archive = archive.New(archive.Options{
		Open: func() (*backup.Store, error) { return p.open(s, location), nil },
		Log:  storage.LogOf(i.Engine),
		Owner: func() (backup.LogOwner, bool) {
			return backup.LogOwner{Cluster: cluster, Host: i.Cluster.HostID().String()}, i.Cluster.Self() != 0
		},
		Metadata: i.Cluster.Metadata, Stamp: p.Stamp, Clock: hurriedClock{p.Clock}, Await: p.await,
		Logger: slog.New(slog.DiscardHandler)})
	p.Spawn(func() { p.RunTask(func() { p.archive.Run(context.Background()) }) })
}

// MetadataChanged is called when the process has applied metadata.
func (p *Process) MetadataChanged(now *metadata.Metadata) {
	if p.archive != nil {
		p.archive.MetadataChanged(now)
	}
}

// hurriedClock is the clock of the archive: its pauses are shorter, so that a run has many segments.
type hurriedClock struct{ env.Clock }

// hurry divides the pauses between the rounds of the archive.
const hurry = 10

// After implements env.Clock.
func (c hurriedClock) After(d time.Duration, f func()) env.Timer { return c.Clock.After(d/hurry, f) }

// restore makes an attempt of a restoration. It chooses the backup of a moment, as the job of an operator does.
func (p *Process) restore(ctx context.Context, h Host, s *store, r *backups.Restoration) error {
	if r.Name == "" {
		if _, err := p.node.Plan(ctx, p.open(s, location), r); err != nil {
			return err
		}
	}
	return p.node.Restore(ctx, r, increasing(h))
}

// moved returns the epoch of the ring's last change that the process knows.
func (p *Process) moved() uint64 { return p.Instance.Cluster.Metadata().Topology.Moved() }
