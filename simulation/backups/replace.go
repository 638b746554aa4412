package backups

import (
	"context"
	"fmt"
	"slices"

	"cqld/backup"
	"cqld/node/backups"
	"cqld/schema"
	"cqld/simulation/meetings"
	"cqld/simulation/texttable"
)

// Replaced is the table that the operator replaces with a restored one. It is empty until the first replacement.
const Replaced = "replaced"

// replacement is a restoration in the place of Replaced, with all its attempts, which are one job.
type replacement struct {
	from *made
	seed string
	// id is of the restored table. loaded is the checkpoint of the job, and done means that an attempt has succeeded.
	id           schema.UUID
	attempted    int
	loaded, done bool
}

// replacementsMost bounds the replacements of a run, as restoredMost bounds restorations.
const replacementsMost = 4

// target is what all replacements restore.
func target() backup.Target {
	return backup.Target{Keyspace: texttable.Keyspace, Name: Saved, Into: texttable.Keyspace, As: Replaced,
		Replaces: true}
}

// operateReplacement begins a replacement, or makes another attempt of an earlier one.
func (w *Workload) operateReplacement(p *Process, which uint64, again bool) {
	if n := uint64(len(w.replacements)); n == replacementsMost || n > 0 && again {
		if x := w.replacements[which%n]; x.attempted < attemptsMost {
			w.replace(p, x)
		}
		return
	}
	// Of a backup that is not complete only sometimes: it must be refused.
	b := w.choose(which)
	if !b.complete && which%4 != 0 {
		return
	}
	x := &replacement{from: b, seed: fmt.Sprint("replacement ", len(w.replacements))}
	x.id = backup.IDOf(x.seed, target())
	w.replacements = append(w.replacements, x)
	w.replace(p, x)
}

// replace makes an attempt. Two attempts of one job may run at the same time, if the first one's leader is slow to end.
func (w *Workload) replace(p *Process, x *replacement) {
	x.attempted++
	o := backups.Restoration{Location: location, Name: x.from.name, Scope: []string{texttable.Keyspace + "." + Saved},
		As: texttable.Keyspace + "." + Replaced, Replace: true, Seed: x.seed, Task: w.newTask(),
		Loaded: x.loaded, NoteLoaded: func() { x.loaded = true }}
	w.task(p, meetings.Restoration, func(ctx context.Context) error {
		err := p.node.Restore(ctx, &o, increasing(w.host))
		if err == nil {
			x.done = true
			w.host.Count("tables replaced")
		}
		return err
	})
}

// excuseReplaced excuses the tables that do not have all rows yet, whose replicas differ until an attempt succeeds.
func (w *Workload) excuseReplaced() {
	for _, x := range w.replacements {
		if t := w.host.Table(fmt.Sprintf("restoring_%x_%s", x.id[:4], Replaced)); t != nil {
			w.host.Excuse(t.StorageID)
		}
	}
}

// checkReplaced is called after all faults have ended. Each table that had the name has it, or was dropped when another
// one got it, and has all its rows.
func (w *Workload) checkReplaced(listed []backup.Listed) {
	retained := w.retainedTables(Replaced)
	current := w.host.Table(Replaced)
	if current == nil {
		w.host.Fail("no table is named %s", Replaced)
		return
	}
	for i, x := range w.replacements {
		is := func(t *schema.Table) bool { return t.ID == x.id }
		found := slices.IndexFunc(retained, is)
		if x.done && found < 0 && !is(current) {
			w.host.Fail("replacement %d has succeeded, and its table has not the name, and was not replaced", i)
		}
		table := current
		if found >= 0 {
			if is(current) {
				w.host.Fail("the table of replacement %d was replaced by itself", i)
			}
			table = w.undropAs(retained[found], fmt.Sprint("undone", i))
		} else if !is(current) {
			continue // it has not been named
		}
		m := slices.IndexFunc(listed, func(l backup.Listed) bool { return l.Name == x.from.name && l.Manifest != nil })
		// The manifest of a backup that was deleted may be removed.
		if table != nil && m >= 0 {
			w.host.Count("replaced tables compared")
			w.compare(w.host, table, w.viewOf(listed[m].Manifest), "table "+table.Name+" was replaced")
		}
	}
}

// retainedTables returns the tables that were dropped with a name, in the order of their drops.
func (w *Workload) retainedTables(name string) []*schema.Table {
	all := w.host.Processes()
	if len(all) == 0 {
		return nil
	}
	retained := all[0].Instance.Cluster.Metadata().Schema.Keyspace(texttable.Keyspace).Retained()
	return slices.DeleteFunc(slices.Clone(retained), func(t *schema.Table) bool { return t.Name != name })
}

// undropAs gives a dropped table a name in the healed cluster, and returns it, or nil.
func (w *Workload) undropAs(t *schema.Table, name string) *schema.Table {
	w.must(w.host, w.kernel, "UNDROP TABLE AS "+name, func(ctx context.Context, p *Process) error {
		c := &schema.UndropTable{Keyspace: texttable.Keyspace, Table: t.StorageID, As: name}
		return p.propose(ctx, func(done func(error)) { p.Instance.Cluster.StartSchema(c, done) })
	})
	return w.host.Table(name)
}
