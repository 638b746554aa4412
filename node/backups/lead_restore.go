package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cqld/backup"
	"cqld/schema"
	"cqld/storage/format"
)

// Restoration says what is restored.
type Restoration struct {
	Location string
	Name     string   // of the backup; empty means the newest one
	Scope    []string // keyspaces and tables; empty means everything in the backup
	// At is the hybrid time (µs) to which tables are restored; 0 means the time of the backup. Without a name, the
	// backup is the newest one before it.
	At int64
	// As is the new name of the only table in Scope, KEYSPACE.TABLE; empty means its own name.
	As string
	// Fit adapts the replication of the keyspaces that are created to the ring.
	Fit bool
	// Replace means that the restored tables replace those that have their names, when all rows are there.
	Replace bool
	// Loaded means that an earlier attempt has restored all rows of tables that replace others. NoteLoaded is called
	// when this one has; nil does nothing.
	Loaded     bool
	NoteLoaded func()
	// Seed is the same for all attempts, and determines the identifiers of the tables. Task is of this attempt.
	Seed, Task string
}

// Planned is what a restoration does.
type Planned struct {
	Manifest *backup.Manifest
	Targets  []backup.Target
	// Changes are the changes of the schema, and Roles is the number of changes of roles.
	Changes []schema.Change
	Roles   int
	// Replacement is the last change of the schema. It is nil if no table is replaced, or an earlier attempt has done
	// it.
	Replacement *schema.ReplaceTables
	// Bytes is the size of the files that the nodes read.
	Bytes int64
	// NodeBytes is how many bytes each node reads, on average: its part of the files to compare them, and what its
	// ranges need. It is an upper bound if only some tables of the backup are restored, whose sizes are not known.
	NodeBytes int64
	// Rate is at most how many bytes a node reads per second, and Estimate how long the restoration takes.
	Rate     int64
	Estimate time.Duration
	// Lacks names data that nodes had lost when they stored their files.
	Lacks []string
	then  backup.Contents
	// at is what leads to a moment, or nil. sources are the tables of the targets at the moment.
	at      *moment
	sources []schema.StorageID
}

// Plan returns what a restoration would do. It changes nothing, in the cluster and in the store. It sets the name in r
// to the name of the newest backup if it is empty.
func (n *Node) Plan(ctx context.Context, s *backup.Store, r *Restoration) (*Planned, error) {
	p := new(Planned)
	var err error
	if r.Name == "" {
		if r.At == 0 {
			r.Name, err = newest(ctx, s)
		} else {
			r.Name, err = n.baseOf(ctx, s, r.At)
		}
		if err != nil {
			return nil, err
		}
	}
	if p.Manifest, err = s.Manifest(ctx, r.Name); err != nil {
		return nil, err
	}
	if p.Manifest.StorageFormat != format.Version {
		return nil, fmt.Errorf("backup %s has files of storage format %d, and this cqld reads format %d: restore it "+
			"with cqld %s", r.Name, p.Manifest.StorageFormat, format.Version, p.Manifest.Build)
	}
	if p.then, err = s.Contents(ctx, p.Manifest); err != nil {
		return nil, err
	}
	contained, lacking, err := n.contained(ctx, s, p, r.At)
	if err != nil {
		return nil, err
	}
	if p.Targets, err = targets(p.Manifest, p.then.Schema, contained, lacking, r); err != nil {
		return nil, err
	}
	// Metadata that are not the newest make a change fail later, which another attempt corrects.
	now := n.o.Cluster.Metadata()
	whole := len(r.Scope) == 0 && len(p.Manifest.Scope) == 0
	if p.Changes, err = backup.Changes(p.then.Schema, now.Schema, p.Targets, r.Seed, whole); err != nil {
		return nil, err
	}
	// Before the changes are tried: the next check needs the replication that the keyspaces will have.
	if r.Fit {
		fitKeyspaces(p.Changes, now.Topology)
	}
	// Each change is tried on the schema, so that a refused change leaves nothing in the metadata.
	next := now.Schema
	p.Replacement = backup.Replacement(p.then.Schema, now.Schema, p.Targets, r.Seed)
	for _, c := range p.all() {
		if next, err = schema.Apply(next, c); err != nil {
			return nil, fmt.Errorf("the schema of the backup does not fit: %w", err)
		}
	}
	if err := placeable(p.Targets, next, now.Topology); err != nil {
		return nil, err
	}
	if whole && p.then.Roles != nil {
		p.Roles = len(backup.RoleChanges(p.then.Roles, now.Roles, r.Seed))
	}
	p.Bytes, _ = p.Manifest.Bytes()
	if p.at != nil {
		p.Bytes += p.at.bytes()
		for _, t := range p.Targets {
			p.sources = append(p.sources, p.then.Schema.Table(t.Keyspace, t.Name).StorageID)
		}
	}
	n.estimate(p, next, now.Topology)
	for _, share := range p.Manifest.Shares {
		for _, text := range share.Lacks {
			p.Lacks = append(p.Lacks, fmt.Sprintf("node %s: %s", share.Host, text))
		}
	}
	return p, nil
}

// all returns all changes of the schema.
func (p *Planned) all() []schema.Change {
	if p.Replacement == nil {
		return p.Changes
	}
	return append(slices.Clone(p.Changes), p.Replacement)
}

// SchemaChanges returns the number of changes of the schema.
func (p *Planned) SchemaChanges() int { return len(p.all()) }

// Replaces reports whether a table that exists is replaced by the table of a target.
func (p *Planned) Replaces(t backup.Target) bool {
	return p.Replacement != nil && slices.ContainsFunc(p.Replacement.Tables, func(r schema.Replacement) bool {
		return r.Keyspace == t.Into && r.Table == t.As && r.Replaced != schema.UUID{}
	})
}

// loads reports whether the rows of the tables have to be restored. An earlier attempt may have restored them, unless
// the tables have to be created again.
func (p *Planned) loads(r *Restoration) bool {
	if len(p.Targets) == 0 || !r.Replace {
		return len(p.Targets) > 0
	}
	creates := slices.ContainsFunc(p.Changes, func(c schema.Change) bool {
		_, ok := c.(*schema.CreateTable)
		return ok
	})
	return p.Replacement != nil && (creates || !r.Loaded)
}

// contained returns the tables whose rows can be restored, and the names of tables whose rows the backup lacks. For a
// moment after the backup, it replaces the schema and the roles of the plan.
func (n *Node) contained(ctx context.Context, s *backup.Store, p *Planned, at int64) (tables []*schema.Table,
	lacking map[string]bool, err error) {
	if at == 0 {
		if tables, err = backup.Tables(p.then.Schema, p.Manifest.Scope); err != nil {
			err = fmt.Errorf("backup %s: %w", p.Manifest.Name, err)
		}
		return tables, nil, err
	}
	if err := n.checkMoment(p.Manifest, at); err != nil {
		return nil, nil, err
	}
	if p.at, err = n.momentOf(ctx, s, p.Manifest, at, ""); err != nil {
		return nil, nil, err
	}
	// The files of the backup have the tables of its own schema, with the same numbers: a number is never used twice.
	base := p.then.Schema
	p.then = p.at.contents
	return momentTables(p.Manifest, base, p.then.Schema)
}

// newest returns the name of the newest backup that can be restored, by the time when it was made.
func newest(ctx context.Context, s *backup.Store) (name string, err error) {
	all, err := s.List(ctx)
	for _, l := range all {
		if l.Manifest != nil && l.Deleted.IsZero() {
			name = l.Name
		}
	}
	if err == nil && name == "" {
		err = backup.ErrNoBackup
	}
	return name, err
}

// targets returns the tables that are restored, in the order of their numbers in the backup. A name in the scope that
// the backup does not contain is an error: a restoration of less than an operator expects would be noticed too late.
func targets(m *backup.Manifest, then *schema.Schema, contained []*schema.Table, lacking map[string]bool,
	r *Restoration) (out []backup.Target, err error) {
	in := map[string]bool{}
	for _, t := range contained {
		in[t.Keyspace+"."+t.Name] = true
	}
	wanted, err := backup.Tables(then, r.Scope)
	if err != nil {
		return nil, fmt.Errorf("backup %s: %w", m.Name, err)
	}
	for _, t := range wanted {
		// Its rows would be those that were written after the backup only.
		if lacking[t.Keyspace+"."+t.Name] {
			return nil, fmt.Errorf("table %s.%s was dropped when backup %s was made, and restored later: its rows "+
				"are not in the backup; use a later backup, or name other tables with --table", t.Keyspace, t.Name,
				m.Name)
		}
		if in[t.Keyspace+"."+t.Name] {
			out = append(out, backup.Target{Keyspace: t.Keyspace, Name: t.Name, Into: t.Keyspace, As: t.Name,
				Replaces: r.Replace})
		} else if len(r.Scope) > 0 {
			return nil, fmt.Errorf("backup %s does not contain table %s.%s", m.Name, t.Keyspace, t.Name)
		}
	}
	if r.As == "" {
		return out, nil
	}
	into, as, ok := strings.Cut(r.As, ".")
	if !ok || into == "" || as == "" || len(out) != 1 || len(r.Scope) != 1 || !strings.Contains(r.Scope[0], ".") {
		return nil, errors.New("--as KEYSPACE.TABLE needs exactly one table with --table")
	}
	out[0].Into, out[0].As = into, as
	return out, nil
}

// Restore restores tables, after the backup was verified. progress gets the current part and bytes. Where
// the total is known, the bytes never decrease.
func (n *Node) Restore(ctx context.Context, r *Restoration, progress func(done, total int64, phase string)) error {
	s, err := n.o.Open(r.Location)
	if err != nil {
		return err
	}
	// Before the backup is read: from then on, no schedule deletes it. A location that is full, or may only be read, is
	// no reason not to restore.
	err = s.Hold(ctx, r.Name, r.Task, n.o.Clock.Now().UTC())
	if errors.Is(err, backup.ErrNotHeld) && ctx.Err() == nil {
		n.o.Log.Warn("the restoration continues without a note in the location", "err", err)
	} else if err != nil {
		return err
	}
	defer func() { _ = s.Release(context.WithoutCancel(ctx), r.Name, r.Task) }()
	if r.Replace {
		// The plan names the tables that are replaced, so that it needs the newest ones.
		if _, err := n.confirmed(ctx); err != nil {
			return err
		}
	}
	p, err := n.Plan(ctx, s, r)
	if err != nil {
		return err
	}
	l, err := n.lead(ctx, r.Seed, r.Task)
	if err != nil {
		return err
	}
	defer l.end(ctx)
	request := Request{Location: r.Location, Backup: r.Name, Nonce: identity(p.Manifest)}
	for _, t := range p.Targets {
		request.Rows = append(request.Rows, Source{Keyspace: t.Keyspace, Name: t.Name, Into: backup.IDOf(r.Seed, t)})
	}
	loads := p.loads(r)
	// Before anything is created: the rows of a damaged backup never become visible.
	var verified int64 // bytes
	if loads || !r.Replace {
		if verified, err = l.verify(ctx, r, p, request, progress); err != nil {
			return err
		}
	}
	progress(0, 0, "creating tables")
	if err := n.define(ctx, p.Changes); err != nil {
		return err
	}
	if !r.Replace {
		if err := n.defineRoles(ctx, p, r.Seed); err != nil {
			return err
		}
	}
	if loads {
		// A job never shows less than before: without the verified bytes, it would show no progress for a long time.
		after := func(done, total int64, phase string) {
			if total > 0 {
				done, total = verified+done, verified+total
			}
			progress(done, total, phase)
		}
		if err := l.load(ctx, r, p, request, after); err != nil {
			return err
		}
	}
	if !r.Replace {
		return nil
	}
	if err := l.replace(ctx, p, request, progress); err != nil {
		return err
	}
	// Grants on the restored tables name them.
	return n.defineRoles(ctx, p, r.Seed)
}

// verify compares the backup with its hashes, and the logs that lead to a moment. It returns how many bytes were read.
func (l *leader) verify(ctx context.Context, r *Restoration, p *Planned, request Request,
	progress func(done, total int64, phase string)) (read int64, err error) {
	request.Step, request.Rows = Verify, nil
	if p.at != nil {
		request.Step, request.At, request.State, request.Tables = VerifyMoment, r.At, p.at.state, p.sources
	}
	err = l.each(ctx, request, func(done, total int64) {
		read = done
		progress(done, total, "verifying the backup")
	})
	return read, err
}

// load restores the rows of the tables, which exist.
func (l *leader) load(ctx context.Context, r *Restoration, p *Planned, request Request,
	progress func(done, total int64, phase string)) error {
	request.Step = Restore
	if p.at != nil {
		request.Step, request.At, request.State = RestoreMoment, r.At, p.at.state
	}
	err := l.each(ctx, request, func(done, total int64) { progress(done, total, "restoring rows") })
	if err == nil && r.Replace && r.NoteLoaded != nil {
		r.NoteLoaded()
	}
	return err
}

// define applies changes of the schema. Each returns when all live nodes have applied it. If one fails, the next
// attempt continues after the last one that was applied.
func (n *Node) define(ctx context.Context, changes []schema.Change) error {
	for _, c := range changes {
		if err := n.o.ProposeSchema(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// defineRoles adds the roles, as define does.
func (n *Node) defineRoles(ctx context.Context, p *Planned, seed string) error {
	if p.Roles == 0 {
		return nil
	}
	for _, c := range backup.RoleChanges(p.then.Roles, n.o.Cluster.Metadata().Roles, seed) {
		if err := n.o.ProposeRoles(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
