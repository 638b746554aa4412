package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"cqld/cluster/metadata"
	"cqld/internal/env"
	"cqld/jobs"
	"cqld/node/control"
	"cqld/node/snapshot"
	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/block"
	"cqld/storage/export"
)

// Imports adds rows of snapshots of this node to tables: to one that was truncated, or that was dropped and created
// again. A table that exists keeps its rows; the newer version of each cell wins.
//
//	snapshot ─ Append ─▶ block ─ Rewrite (table, columns) ─▶ Ingestion ─ Commit ─▶ the table
type Imports struct {
	snapshots   *Snapshots
	jobs        *Jobs
	truncations truncations
	changed     func(schema.StorageID) // is called after rows of a table were added
	repaired    *repair.History
	clock       env.Clock
	rate        int64 // bytes per second that are read
}

// truncations is the interface of the truncations of this node's replica.
type truncations interface {
	Count(id schema.StorageID) uint64
	Commit(id schema.StorageID, count uint64, f func() error) (ok bool, err error)
}

const (
	// importBlockBytes is how much is in memory at once.
	importBlockBytes = 1 << 20
	// importFileBytes is the size from which a file is made part of the table.
	importFileBytes = 16 << 20
)

// Import adds the rows that a snapshot has of a table to the table, as a job. An import that is repeated changes
// nothing.
func (i *Imports) Import(ctx context.Context, a control.ImportArgs, report control.Report) (none control.None,
	err error) {
	// What is wrong with the arguments is reported at once.
	if _, err := i.plan(a); err != nil {
		return none, err
	}
	target := fmt.Sprintf("%s.%s from snapshot %s", a.Keyspace, a.Table, a.Tag)
	return none, i.jobs.start(ctx, jobs.Import, target, jobs.Ranges, a, i.work(a), report)
}

// importPlan is an import whose arguments were checked.
type importPlan struct {
	tag      string
	manifest *snapshot.Manifest
	source   *snapshot.Table
	table    *schema.Table
	columns  snapshot.ColumnMap
	topology *ring.Topology
	count    uint64 // of truncations of the table
	pace     pace   // of reads
}

// plan checks that the rows of the snapshot fit the table, and that the ring does not change.
func (i *Imports) plan(a control.ImportArgs) (p importPlan, err error) {
	if err := validTag(a.Tag); err != nil {
		return p, err
	}
	p.tag = a.Tag
	p.manifest, err = snapshot.Read(i.snapshots.disk, i.snapshots.path(a.Tag))
	if errors.Is(err, fs.ErrNotExist) {
		return p, noSnapshot(a.Tag)
	}
	if err != nil {
		return p, importRefused("snapshot %s: %v", a.Tag, err)
	}
	name := a.Keyspace + "." + a.Table
	if p.source = p.manifest.Table(a.Keyspace, a.Table); p.source == nil {
		return p, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("snapshot %s has nothing of table %s", a.Tag, name)}
	}
	now := i.snapshots.catalog.cluster.Metadata()
	p.topology, p.table = now.Topology, now.Schema.Table(a.Keyspace, a.Table)
	switch {
	case p.table == nil:
		return p, importRefused("table %s does not exist: create it first, for example with the statement that "+
			"`cqld ctl showsnapshot -t %s` shows", name, a.Tag)
	case p.table.Virtual || p.table.View != nil || schema.IsSystem(a.Keyspace):
		return p, importRefused("rows cannot be imported into %s: it is a view, or a table of the system", name)
	case p.table.IsCounter():
		return p, importRefused("rows cannot be imported into %s: it has counters, whose increments since the "+
			"snapshot would be lost", name)
	// Rows of files are no updates, which the updates of views need.
	case len(p.table.Views()) > 0:
		return p, importRefused("rows cannot be imported into %s: it has materialized views, which would lack them; "+
			"drop the views, import on all nodes, and create the views again", name)
	case len(p.source.Columns) == 0:
		return p, importRefused("snapshot %s does not say which columns its rows have: it was made by an earlier cqld",
			a.Tag)
	case len(p.topology.Operations()) > 0:
		return p, importRefused("the ring changes now: import when `cqld ctl operations` shows nothing")
	}
	if p.columns, err = snapshot.MapColumns(p.source.Columns, snapshot.ColumnsOf(p.table)); err != nil {
		return p, importRefused("snapshot %s does not fit table %s: %v", a.Tag, name, err)
	}
	// Before anything is read: rows must not be added to a table that is truncated meanwhile.
	p.count = i.truncations.Count(p.table.StorageID)
	return p, nil
}

// importRefused returns the error of an import that is not possible.
func importRefused(format string, args ...any) error {
	return &control.Error{Code: control.Refused, Message: fmt.Sprintf(format, args...)}
}

// work returns the work of an import. A new attempt starts from the beginning.
func (i *Imports) work(a control.ImportArgs) jobWork {
	return func(ctx context.Context, j *jobs.Job) (err error) {
		p, err := i.plan(a)
		if err != nil {
			return err
		}
		// The rows may fill the disk, or take longer than the snapshot has left. It stays until they are all imported.
		i.snapshots.retain(a.Tag)
		j.Progress(0, 0, "verifying snapshot "+a.Tag)
		if err := i.verify(ctx, &p); err != nil {
			return err
		}
		disk, log := i.snapshots.disk, i.snapshots.log
		c, err := export.Open(disk, disk.PathJoin(i.snapshots.path(a.Tag), snapshot.DataDir), log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		// Repairs of the table as it was without these rows would allow the purge of deletions among them, which other
		// replicas may lack. A repair that began before the end knows nothing of them either.
		if err := i.repaired.Retain(p.table.StorageID, nil); err != nil {
			return err
		}
		p.pace = pace{clock: i.clock, bytesPerSecond: i.rate, began: i.clock.Monotonic()}
		err = i.importRanges(ctx, c, &p, j)
		if err = errors.Join(err, i.repaired.Retain(p.table.StorageID, nil)); err != nil {
			return err
		}
		i.snapshots.unretain(a.Tag)
		// An import of less than the table had is complete, and says what is missing.
		if len(p.manifest.Lacks) > 0 {
			log.Warn("the imported snapshot is incomplete: this node had lost data", "tag", a.Tag, "lacks",
				p.manifest.Lacks)
		}
		return nil
	}
}

// importRanges adds the rows of all ranges that this node replicates. The snapshot may have rows of others, which the
// node replicated then.
func (i *Imports) importRanges(ctx context.Context, c *export.Checkpoint, p *importPlan, j *jobs.Job) error {
	ranges := i.ranges(p)
	for n, r := range ranges {
		j.Progress(int64(n), int64(len(ranges)), "importing "+p.source.Keyspace+"."+p.source.Name)
		if err := i.importRange(ctx, c, p, r); err != nil {
			return err
		}
	}
	j.Progress(int64(len(ranges)), int64(len(ranges)), "")
	return nil
}

// verify compares the files of the snapshot with its manifest.
func (i *Imports) verify(ctx context.Context, p *importPlan) error {
	problems, _, err := snapshot.Verify(ctx, i.snapshots.disk, i.snapshots.path(p.tag), p.manifest)
	if err == nil && len(problems) > 0 {
		err = importRefused("snapshot %s does not agree with its manifest: %s; `cqld ctl verifysnapshot` shows all "+
			"problems", p.tag, problems[0])
	}
	return err
}

// ranges returns the ranges of the table that this node replicates.
func (i *Imports) ranges(p *importPlan) (out []ring.Range) {
	self := i.snapshots.catalog.cluster.Self()
	for _, piece := range p.topology.Placement(p.table.Replication).Ranges(ring.FullRange()) {
		if piece.Replicas.Contains(self) {
			out = append(out, piece.Range)
		}
	}
	return out
}

// importRange adds the rows of a range, at the pace of the plan.
func (i *Imports) importRange(ctx context.Context, c *export.Checkpoint, p *importPlan, r ring.Range) error {
	var file *storage.Ingestion
	defer func() {
		if file != nil {
			file.Abort()
		}
	}()
	var buffer, after []byte
	for {
		read, next, err := c.Append(buffer[:0], &export.Query{Table: p.source.StorageID, Tokens: r, After: after,
			BytesMax: importBlockBytes})
		if err == nil {
			err = p.pace.wait(ctx, len(read))
		}
		if err != nil {
			return err
		}
		rewritten, err := block.Rewrite(nil, read, p.table.StorageID, p.columns.Apply)
		if err != nil {
			return err
		}
		if file == nil {
			file = i.snapshots.engine.NewIngestion(p.table.StorageID, r)
			file.MarkForeign()
		}
		// Most ranges of a small table are empty.
		if len(rewritten) > 0 {
			if err := file.Add(rewritten); err != nil {
				return err
			}
		}
		if next == nil || file.Size() >= importFileBytes {
			complete := file
			file = nil // commit ends it
			if err := i.commit(p, complete); err != nil || next == nil {
				return err
			}
		}
		buffer, after = read, next
	}
}

// unchanged returns an error if a new replica or the build of a new view may have read a range before its rows were
// imported, or if the table is gone.
func (p *importPlan) unchanged(now *metadata.Metadata) error {
	if now.Topology != p.topology {
		return importRefused("the ring has changed during the import: resume it when `cqld ctl operations` shows " +
			"nothing")
	}
	t := now.Schema.TableByStorage(p.table.StorageID)
	if t == nil || t.Retention != nil {
		return importRefused("table %s.%s was dropped or truncated during the import", p.table.Keyspace, p.table.Name)
	}
	if len(t.Views()) > 0 {
		return importRefused("a materialized view of table %s.%s was created during the import: drop it, and repeat "+
			"the import", p.table.Keyspace, p.table.Name)
	}
	return nil
}

// commit makes the rows of a file rows of the table, unless the table was truncated or what unchanged looks at has
// changed since the import began.
func (i *Imports) commit(p *importPlan, file *storage.Ingestion) error {
	cluster := i.snapshots.catalog.cluster
	if err := p.unchanged(cluster.Metadata()); err != nil {
		file.Abort()
		return err
	}
	valid, err := i.truncations.Commit(p.table.StorageID, p.count, file.Commit)
	if !valid {
		file.Abort()
		return importRefused("table %s.%s was truncated during the import", p.table.Keyspace, p.table.Name)
	}
	// Also after an error, because the file may have been ingested.
	i.changed(p.table.StorageID)
	if err != nil {
		return err
	}
	// A change while the file was committed: a reader that came first did not see its rows.
	return p.unchanged(cluster.Metadata())
}
