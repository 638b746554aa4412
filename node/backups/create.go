package backups

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cqld/auth"
	"cqld/backup"
	"cqld/schema"
	"cqld/storage/format"
)

// Creation says what a backup is of. It is not modified.
type Creation struct {
	Location string
	Name     string
	Scope    []string // keyspaces and tables; empty means everything
	// Job is the same for all attempts, and Task is of this attempt.
	Job, Task string
}

// Check returns why a backup cannot be made, before a job begins. It reads neither the location nor other nodes: what
// it refuses is an error of the operator, and not a failed job.
func (n *Node) Check(c *Creation) error {
	if err := backup.CheckLocation(c.Location); err != nil {
		return err
	}
	if err := backup.CheckName(c.Name); err != nil {
		return err
	}
	tables, err := backup.Tables(n.o.Cluster.Metadata().Schema, c.Scope)
	if err == nil && len(tables) == 0 && len(c.Scope) > 0 {
		err = fmt.Errorf("there are no tables in %s", strings.Join(c.Scope, ", "))
	}
	return err
}

// Create makes a backup, or returns it if an earlier attempt of the job has made it. progress gets the current part and
// bytes.
func (n *Node) Create(ctx context.Context, c *Creation, progress func(done, total int64, phase string)) (
	*backup.Manifest, error) {
	s, err := n.o.Open(c.Location)
	if err != nil {
		return nil, err
	}
	// A backup that cannot be made now leaves no note in the store.
	if _, err := n.lead(ctx, c.Job, c.Task); err != nil {
		return nil, err
	}
	started := backup.Started{Name: c.Name, Created: n.o.Clock.Now().UTC(), Nonce: c.Task, Job: c.Job}
	complete, err := s.Start(ctx, started)
	if err != nil || complete != nil {
		return complete, err
	}
	progress(0, 0, "making checkpoints")
	l, at, err := n.checkpoints(ctx, c)
	if err != nil {
		return nil, err
	}
	defer l.end(ctx)
	upload := Request{Step: Upload, Location: c.Location, Backup: c.Name, Nonce: c.Task}
	if err := l.each(ctx, upload, func(done, total int64) { progress(done, total, "storing files") }); err != nil {
		return nil, err
	}
	// From here on, the checkpoints are no longer needed. They are removed when the task ends.
	progress(0, 0, "writing the manifest")
	m := &backup.Manifest{Name: c.Name, Job: c.Job, Created: started.Created, HybridTime: at, Build: n.o.Build,
		StorageFormat: format.Version, Cluster: n.o.Name, ClusterID: n.o.ID(), Scope: c.Scope,
		Members: backup.MembersOf(l.metadata.Topology)}
	if err := n.describe(ctx, s, m, l.metadata.Schema, l.metadata.Roles); err != nil {
		return nil, err
	}
	// Each node has stored its list. A node that is missing here makes the attempt fail.
	for _, member := range l.nodes {
		share, err := s.ShareOf(ctx, c.Name, member.Host.String())
		if err != nil {
			return nil, err
		}
		m.Shares = append(m.Shares, *share)
	}
	// No checkpoint contains a write with a later hybrid time: moments after the end can be restored from the backup.
	m.Ended = time.UnixMicro(max(n.o.Clock.Now().UnixMicro(), n.o.Stamp())).UTC()
	return m, s.Complete(ctx, m, c.Task)
}

// checkpointsMax is how often checkpoints are made while the schema changes.
const checkpointsMax = 10

// checkpoints makes a checkpoint on each node. at is the time of the backup. The caller ends the task of the leader,
// whose metadata describe the checkpoints.
func (n *Node) checkpoints(ctx context.Context, c *Creation) (l *leader, at int64, err error) {
	for round := range checkpointsMax {
		// The time comes first: tables that were created before it are in the metadata, and rows that were written
		// before it in the checkpoints.
		at = n.o.Stamp()
		// A request of an earlier round that arrives late must not begin this one.
		if l, err = n.lead(ctx, c.Job, fmt.Sprintf("%s-%d", c.Task, round)); err != nil {
			return nil, 0, err
		}
		changed, err := l.checkpoint(ctx, c.Scope)
		if err == nil && !changed {
			return l, at, nil
		}
		l.end(ctx)
		if err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, errors.New("the schema has changed while checkpoints were made, several times: resume the job " +
		"when it no longer changes")
}

// checkpoint makes the checkpoints of one round. changed means that rows in them may not fit the schema.
func (l *leader) checkpoint(ctx context.Context, scope []string) (changed bool, err error) {
	tables, err := backup.Tables(l.metadata.Schema, scope)
	if err != nil {
		return false, err
	}
	r := Request{Step: Checkpoint}
	for _, t := range tables {
		r.Tables = append(r.Tables, t.StorageID)
	}
	if err := l.each(ctx, r, func(int64, int64) {}); err != nil {
		return false, err
	}
	now, err := l.n.confirmed(ctx)
	if err != nil {
		return false, err
	}
	if now.Topology.Moved() != l.epoch || len(now.Topology.Operations()) > 0 {
		return false, errRingChanged
	}
	return now.Schema.Version() != l.metadata.Schema.Version(), nil
}

// describe stores the schema and, in a backup of everything, the roles. The schema is whole also in a backup of some
// tables: types and functions of their keyspaces belong to them.
func (n *Node) describe(ctx context.Context, s *backup.Store, m *backup.Manifest, catalog *schema.Schema,
	roles *auth.Directory) (err error) {
	if m.Catalog, err = s.PutBytes(ctx, schema.Encode(catalog)); err != nil || len(m.Scope) > 0 {
		return err
	}
	b, err := auth.Encode(roles)
	if err != nil {
		return err
	}
	o, err := s.PutBytes(ctx, b)
	m.Roles = &o
	return err
}
