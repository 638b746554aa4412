package backups

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cqld/backup"
	"cqld/node/backups"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/kernel"
	"cqld/simulation/pages"
	"cqld/simulation/texttable"
	"cqld/storage"
)

// history contains the changes of each row of Saved in the order of their timestamps.
type history map[at][]*change

// at identifies a row.
type at struct{ key, clustering string }

// change is a change of a row.
type change struct {
	at
	span
	stamp   int64
	deletes bool
}

// add adds a change whose timestamp is after all others.
func (h history) add(key, clustering string, stamp int64, deletes bool, call int64) *change {
	x := &change{at: at{key, clustering}, span: span{call: call}, stamp: stamp, deletes: deletes}
	h[x.at] = append(h[x.at], x)
	return x
}

// value returns the value of the row after the change; it is empty after a deletion.
func (x *change) value() string {
	if x.deletes {
		return ""
	}
	return fmt.Sprint("v", x.stamp)
}

// allows reports whether a row may have a value in a view: the value of the last change that it must contain, or of a
// later one that it may contain. An empty value is no row. A TRUNCATE removes what was acknowledged before it, and
// possibly what was written during it.
func (h history) allows(k at, value string, v *view, truncated []*span) bool {
	allowed := value == ""
	for _, x := range h[k] {
		kept, removed := true, false
		for _, t := range truncated {
			// One that has failed may still remove rows later.
			kept = kept && (!v.begun(t) || t.acked != 0 && t.acked < x.call)
			removed = removed || v.acknowledged(t) && x.acked != 0 && x.acked < t.call
		}
		if v.acknowledged(&x.span) && kept {
			allowed = false // what follows decides
		}
		if v.begun(&x.span) && !removed && x.value() == value {
			allowed = true
		}
	}
	return allowed
}

// contents reads a node's own storage, without the other replicas. It returns the values of the rows of a table in one
// node's storage.
func contents(e *storage.Engine, table *schema.Table, now int64) (map[at]string, error) {
	rows := map[at]string{}
	for p := (&pages.Reader{Table: table.StorageID}); !p.Done(); {
		page, err := e.Read(nil, p.Command(now))
		if err != nil {
			return nil, err
		}
		err = p.Took(page, func(r *row.PageReader, x *row.Row, _ bool) {
			if x != nil && x.Live(now) {
				k := at{string(r.Key.Bytes), string(x.Clustering)}
				rows[k] = "without a value"
				if len(x.Cells) > 0 && x.Cells[0].Live(now) {
					rows[k] = string(x.Cells[0].Value)
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// compare compares a restored table on each of its replicas with what a view may contain. Reads at ONE find exactly
// this.
func (w *Workload) compare(h Host, table *schema.Table, v *view, what string) {
	for _, p := range h.Processes() {
		rows, err := contents(p.Instance.Engine, table, p.Clock.Now().Unix())
		if err != nil {
			h.Fail("%s cannot read table %s: %v", p.Name, table.Name, err)
			continue
		}
		placed, self := p.Instance.Cluster.Metadata().Topology.Placement(table.Replication), p.Instance.Cluster.Self()
		for k := range rows {
			if len(w.changes[k]) == 0 {
				h.Fail("%s: %s has the row %v, which was never written", what, p.Name, k)
			}
		}
		// All rows are compared, also those that the node does not have: a missing row is a deletion.
		for partition := range partitions {
			for clustering := range clustered {
				k := at{fmt.Sprint("saved", partition), fmt.Sprint(clustering)}
				token := row.NewPartitionKey([]byte(k.key)).Token
				// Files may have rows of ranges that the node has given away.
				if !slices.Contains(placed.Replicas(token).Natural, self) {
					continue
				}
				if !w.changes.allows(k, rows[k], v, w.truncated) {
					h.Fail("%s: row %v is %q on %s; %s: %s", what, k, rows[k], p.Name, v.text, w.changes.show(k, v))
				}
			}
		}
	}
}

// show describes the last changes of a row that a view may contain.
func (h history) show(k at, v *view) (out string) {
	var shown []string
	for _, x := range h[k] {
		if v.begun(&x.span) {
			shown = append(shown, fmt.Sprintf("%q %+v", x.value(), x.span))
		}
	}
	return strings.Join(shown[max(len(shown)-shownMost, 0):], ", ")
}

// shownMost bounds the changes that a failure shows.
const shownMost = 12

// settleMost bounds an operation in a healed cluster.
const settleMost = 2 * time.Minute

// must runs an operation that may not fail, in a healed cluster, at the first process.
func (w *Workload) must(h Host, k *kernel.Kernel, what string, do func(ctx context.Context, p *Process) error) bool {
	all := h.Processes()
	if len(all) == 0 || all[0].node == nil {
		h.Fail("%s: no process serves", what)
		return false
	}
	// Any node can lead. The first one is as good as another, because all take part.
	p, ended := all[0], false
	var failure error
	p.RunTask(func() {
		failure = do(context.Background(), p)
		ended = true
	})
	k.RunUntil(k.Now()+settleMost, func() bool { return ended })
	switch {
	case !ended:
		h.Fail("%s does not end in a healed cluster", what)
	case failure != nil:
		h.Fail("%s fails in a healed cluster: %v", what, failure)
	}
	return ended && failure == nil
}

// ReadBack compares the tables that were restored during the faults, restores every backup of the store, and compares
// these, too.
func (w *Workload) ReadBack() {
	w.healed = true
	// From here on, requests of the store succeed: what follows must succeed, too.
	// Processes that have just started have no part of backups yet.
	w.kernel.RunUntil(w.kernel.Now()+10*attachEvery, func() bool { return false })
	listed := w.list()
	for _, x := range w.restored {
		i := slices.IndexFunc(listed, func(l backup.Listed) bool { return l.Name == x.from.name && l.Manifest != nil })
		if x.done == 0 {
			continue
		}
		table := w.undone(x)
		switch {
		// A later attempt has created it, and need not have ended.
		case table != nil && table.StorageID != x.done && slices.Contains(x.purged, x.done):
		case table == nil || table.StorageID != x.done:
			if !slices.Contains(x.purged, x.done) {
				w.host.Fail("table %s was restored and not purged, and does not exist", x.name)
			}
		case x.moment != 0:
			w.host.Count("moments compared")
			w.compare(w.host, table, momentView(x.moment), "table "+x.name+" was restored")
		// The manifest of a backup that was deleted may be removed.
		case i >= 0:
			w.compare(w.host, table, w.viewOf(listed[i].Manifest), "table "+x.name+" was restored")
		}
	}
	w.checkPurged()
	w.checkReplaced(listed)
	for i, l := range listed {
		if l.Deleted.IsZero() && l.Manifest != nil {
			w.check(i, &l)
		}
	}
	w.checkMoments()
	// A backup whose deletion was begun may be there or not: its answer may be lost.
	for _, b := range w.backups {
		lost := !slices.ContainsFunc(listed, func(l backup.Listed) bool {
			return l.Name == b.name && l.Manifest != nil
		})
		if b.complete && !b.deleted && lost {
			w.host.Fail("backup %s was made and not deleted, and is not in the store", b.name)
		}
	}
}

// list returns the backups in the store, and shows that incomplete ones cannot be restored.
func (w *Workload) list() (listed []backup.Listed) {
	if len(w.backups) == 0 {
		return nil
	}
	w.must(w.host, w.kernel, "listing backups", func(ctx context.Context, p *Process) (err error) {
		s := p.open(w.store, location)
		if err := s.Initialize(ctx, p.Clock.Now()); err != nil {
			return err
		}
		if listed, err = s.List(ctx); err != nil {
			return err
		}
		for _, l := range listed {
			r := w.restoration(&restored{from: &made{name: l.Name}, name: "never"})
			_, err := p.node.Plan(ctx, s, &r)
			if err == nil && (l.Manifest == nil || !l.Deleted.IsZero()) {
				return fmt.Errorf("backup %s can be restored: %s", l.Name, l.Problem)
			}
		}
		return nil
	})
	return listed
}

// check does in the healed cluster what an operator does who tests a backup. It verifies a backup, restores it, and
// compares the table.
func (w *Workload) check(number int, l *backup.Listed) {
	b := w.backups[slices.IndexFunc(w.backups, func(b *made) bool { return b.name == l.Name })]
	what := "checking backup " + l.Name
	x := &restored{from: b, name: fmt.Sprint("checked", number)}
	ok := w.must(w.host, w.kernel, what, func(ctx context.Context, p *Process) error {
		v, err := p.node.Verify(ctx, location, l.Name, func(int64, int64) {})
		if err == nil && len(v.Problems) > 0 {
			err = fmt.Errorf("objects that it needs are damaged: %v", v.Problems)
		}
		if err != nil {
			return err
		}
		r := w.restoration(x)
		return p.node.Restore(ctx, &r, increasing(w.host))
	})
	if ok {
		w.host.Count("backups checked")
		w.compare(w.host, w.host.Table(x.name), w.viewOf(l.Manifest), what)
	}
}

// Check restores the newest backup to a new ring of another size, with tokens and a replication factor of its own, in
// half of the seeds: a new ring takes a second of processor time. The table has its own name there, and the replication
// of the keyspace that exists.
func (w *Workload) Check() {
	var newest *backup.Listed
	for _, l := range w.list() {
		if l.Deleted.IsZero() && l.Manifest != nil {
			newest = &l
		}
	}
	if newest == nil || w.seed%2 == 0 {
		return
	}
	r := kernel.NewStream(w.seed, "fresh")
	nodes := 1 + r.Intn(5)
	h, k := w.host.Fresh(nodes, min(nodes, 1+r.Intn(3)))
	if h == nil {
		return
	}
	for _, p := range h.Processes() {
		if err := p.attach(k, w.store, func(int64) {}); err != nil {
			h.Fail("%s: %v", p.Name, err)
		}
	}
	// The store is the only thing that both rings know.
	what := fmt.Sprintf("restoring backup %s to a new ring of %d", newest.Name, nodes)
	ok := w.must(h, k, what, func(ctx context.Context, p *Process) error {
		o := backups.Restoration{Location: location, Name: newest.Name,
			Scope: []string{texttable.Keyspace + "." + Saved}, Seed: "fresh", Task: w.newTask()}
		return p.node.Restore(ctx, &o, increasing(h))
	})
	if ok {
		w.host.Count("restored to a new ring")
		w.compare(h, h.Table(Saved), w.viewOf(newest.Manifest), what)
	}
}

// increasing returns the progress of a restoration, which must not decrease: its job would show none until it has
// reached the bytes of its earlier part again.
func increasing(h Host) func(done, total int64, phase string) {
	var most int64
	return func(done, total int64, phase string) {
		if total > 0 && done < most {
			h.Fail("the progress of a restoration fell from %d to %d bytes: %s", most, done, phase)
		}
		most = max(most, done)
	}
}
