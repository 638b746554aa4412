package admin

import (
	"context"
	"slices"
	"strings"

	"cqld/internal/env"
	"cqld/jobs"
	"cqld/node/control"
	"cqld/schema"
	"cqld/storage"
)

// Data flushes and compacts the data of this node. The operations are of this node's storage, so they do not concern
// other nodes.
type Data struct {
	catalog Catalog
	engine  *storage.Engine
	jobs    *Jobs
	clock   env.Clock
}

// Flush flushes the memtables. The tables are named, so that an operator learns of a table that does not exist. All
// memtables are flushed whatever the arguments name, and the call returns when they are on disk.
func (d *Data) Flush(_ context.Context, a control.TablesArgs, _ control.Report) (control.None, error) {
	if _, err := d.catalog.Tables(a); err != nil {
		return control.None{}, err
	}
	return control.None{}, d.engine.Flush() // tables share their memtables
}

// Compact compacts tables, as a job. The storage engine compacts by itself; the operation forces it. The command
// returns when the job has ended, or when the client disconnects.
func (d *Data) Compact(ctx context.Context, a control.TablesArgs, report control.Report) (none control.None,
	err error) {
	if _, err := d.catalog.Tables(a); err != nil {
		return none, err
	}
	// The arguments are stored with the job, so that a resumed one selects its tables again.
	return none, d.jobs.start(ctx, jobs.Compaction, targetOf(a), jobs.Bytes, a, d.compactionWork(a), report)
}

// compactionWork returns the work of a compaction. Its checkpoint is the name of the last table compacted; tables are
// processed in the order of their names. Sizes are in bytes, and include the tables that were done before a resumed
// job. A table that is created after the plan was made is not compacted. A resumed job flushes and measures again.
func (d *Data) compactionWork(a control.TablesArgs) jobWork {
	return func(ctx context.Context, j *jobs.Job) error {
		tables, err := d.catalog.Tables(a)
		if err != nil {
			return err
		}
		// The order is by name, so that the checkpoint can name a table.
		name := func(t *schema.Table) string { return t.Keyspace + "." + t.Name }
		slices.SortFunc(tables, func(a, b *schema.Table) int { return strings.Compare(name(a), name(b)) })
		// The memtable of a table must be on disk before its files are compacted.
		if err := d.engine.Flush(); err != nil {
			return err
		}
		// The sizes are read once. They are estimates and may change while the tables are compacted.
		sizes, total := make([]int64, len(tables)), int64(0)
		for i, t := range tables {
			size, err := d.engine.TableSize(t.StorageID)
			if err != nil {
				return err
			}
			sizes[i] = size.Bytes
			total += size.Bytes
		}
		// The engine reports parts of one table, which are added to the tables that are done.
		// An empty checkpoint is before every name.
		after, done := string(j.Checkpoint()), int64(0)
		// A table that was dropped meanwhile is no error: its data no longer exists.
		for i, t := range tables {
			// '.' is less than letters, digits and '_', so the order of these names is the order of keyspaces and then
			// of tables.
			if name(t) > after {
				what := "compacting " + name(t)
				j.Progress(done, total, what)
				// The checkpoint follows the table, so a failed attempt repeats the last one.
				part := func(n, parts int) { j.Progress(done+sizes[i]*int64(n)/int64(parts), total, what) }
				if err := d.engine.CompactTable(ctx, t.StorageID, part); err != nil && !d.catalog.dropped(t.StorageID,
					err) {
					return err
				}
				j.SetCheckpoint([]byte(name(t)))
			}
			done += sizes[i]
		}
		return nil
	}
}
