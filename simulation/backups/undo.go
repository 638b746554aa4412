package backups

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cqld/ring"
	"cqld/schema"
	"cqld/simulation/meetings"
	"cqld/simulation/texttable"
)

// table returns a table of the keyspace as the process knows it, or nil.
func (p *Process) table(name string) *schema.Table {
	return p.Instance.Cluster.Metadata().Schema.Table(texttable.Keyspace, name)
}

// retained returns the last table that was dropped with a name, or nil.
func (p *Process) retained(name string) *schema.Table {
	all := p.Instance.Cluster.Metadata().Schema.Keyspace(texttable.Keyspace).Retained()
	for _, t := range slices.Backward(all) {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// grace is in seconds. It is longer than a run: only PURGE TABLE removes a table that was dropped.
const grace = 3600

// undo drops the table of a restoration, or restores or purges it if it was dropped. What the process knows may be out
// of date: the change is then refused, or concerns a table that another operator has dropped since.
func (w *Workload) undo(p *Process, x *restored, purges bool) {
	table, gone := p.table(x.name), p.retained(x.name)
	switch now := p.Clock.Now().Unix(); {
	case table != nil:
		// Before the outcome is known: from here on, the table may be missing.
		x.dropped = append(x.dropped, table.StorageID)
		w.change(p, meetings.SchemaChange, &schema.DropTable{Keyspace: texttable.Keyspace, Table: x.name,
			IfExists: true, Retention: &schema.Retention{Dropped: now, Until: now + grace}})
	case gone == nil && x == w.empty:
		c := texttable.New(x.name)
		w.tasks++
		copy(c.ID[:], fmt.Sprintf("empty%011d", w.tasks))
		w.change(p, meetings.SchemaChange, c)
	case gone != nil && purges:
		x.purged = append(x.purged, gone.StorageID)
		w.change(p, meetings.Purge, &schema.PurgeTables{
			Tables: map[schema.StorageID]int64{gone.StorageID: gone.Retention.Until}})
	case gone != nil:
		w.change(p, meetings.Undrop,
			&schema.UndropTable{Keyspace: texttable.Keyspace, Table: gone.StorageID, As: x.name})
	}
}

// change changes the schema. An error leaves the outcome unknown.
func (w *Workload) change(p *Process, operation string, c schema.Change) {
	w.task(p, operation, func(ctx context.Context) error {
		return p.propose(ctx, func(done func(error)) { p.Instance.Cluster.StartSchema(c, done) })
	})
}

// undone undoes the last drop of a restored table in the healed cluster, and returns the table, or nil if the one that
// was restored no longer exists.
func (w *Workload) undone(x *restored) *schema.Table {
	if t := w.host.Table(x.name); t != nil {
		return t
	}
	ok := w.must(w.host, w.kernel, "UNDROP TABLE "+x.name, func(ctx context.Context, p *Process) error {
		t := p.retained(x.name)
		if t == nil {
			return nil
		}
		c := &schema.UndropTable{Keyspace: texttable.Keyspace, Table: t.StorageID, As: x.name}
		return p.propose(ctx, func(done func(error)) { p.Instance.Cluster.StartSchema(c, done) })
	})
	if !ok {
		return nil
	}
	return w.host.Table(x.name)
}

// purgeMost bounds the removal of the rows of a purged table.
const purgeMost = 30 * time.Second

// checkPurged is called after all faults have ended. A table that was dropped and is still retained keeps its rows, so
// only the tables that the schema no longer has are compared. It shows that no node has rows of tables that are no
// longer in the schema.
func (w *Workload) checkPurged() {
	for _, x := range w.restored {
		for _, id := range x.dropped {
			// A node that was down at the change removes the rows when it learns of it.
			left := func() *Process {
				for _, p := range w.host.Processes() {
					empty, err := p.Instance.Engine.EmptyRange(id, ring.FullRange())
					if p.Instance.Cluster.Metadata().Schema.TableByStorage(id) == nil && (err != nil || !empty) {
						return p
					}
				}
				return nil
			}
			w.kernel.RunUntil(w.kernel.Now()+purgeMost, func() bool { return left() == nil })
			if p := left(); p != nil {
				w.host.Fail("%s has rows of table %d of the name %s, which was purged", p.Name, id, x.name)
			}
		}
	}
}
