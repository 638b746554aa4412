package admin

import (
	"context"
	"slices"
	"strings"

	"cqld/jobs"
	"cqld/node/control"
	"cqld/schema"
	"cqld/storage"
)

// Data flushes and compacts the data of this node.
type Data struct {
	catalog Catalog
	engine  *storage.Engine
	jobs    *Jobs
}

// Flush flushes the memtables.
func (d *Data) Flush(_ context.Context, a control.TablesArgs, _ control.Report) (control.None, error) {
	if _, err := d.catalog.Tables(a); err != nil {
		return control.None{}, err
	}
	return control.None{}, d.engine.Flush() // tables share their memtables
}

// Compact compacts tables, as a job.
func (d *Data) Compact(ctx context.Context, a control.TablesArgs, report control.Report) (none control.None,
	err error) {
	if _, err := d.catalog.Tables(a); err != nil {
		return none, err
	}
	return none, d.jobs.start(ctx, jobs.Compaction, targetOf(a), jobs.Bytes, a, d.compactionWork(a), report)
}

// compactionWork returns the work of a compaction. Its checkpoint is the name of the last table compacted; tables are
// processed in the order of their names.
func (d *Data) compactionWork(a control.TablesArgs) jobWork {
	return func(ctx context.Context, j *jobs.Job) error {
		tables, err := d.catalog.Tables(a)
		if err != nil {
			return err
		}
		name := func(t *schema.Table) string { return t.Keyspace + "." + t.Name }
		slices.SortFunc(tables, func(a, b *schema.Table) int { return strings.Compare(name(a), name(b)) })
		if err := d.engine.Flush(); err != nil {
			return err
		}
		sizes, total := make([]int64, len(tables)), int64(0)
		for i, t := range tables {
			size, err := d.engine.TableSize(t.StorageID)
			if err != nil {
				return err
			}
			sizes[i] = size.Bytes
			total += size.Bytes
		}
		after, done := string(j.Checkpoint()), int64(0)
		for i, t := range tables {
			if name(t) > after {
				what := "compacting " + name(t)
				j.Progress(done, total, what)
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
