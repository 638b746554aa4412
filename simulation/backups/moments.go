package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cqld/backup"
	"cqld/simulation/meetings"
)

// span is the time of a change or of a TRUNCATE: in ticks, and by the hybrid clock of its coordinator. acked and
// ackedAt are 0 unless it was acknowledged.
type span struct{ call, acked, begunAt, ackedAt int64 }

// view is what a backup or a moment may contain: all that was acknowledged in time, and nothing that began too late.
type view struct {
	acknowledged, begun func(*span) bool
	text                string
}

// viewOf returns the view of a backup: changes that were acknowledged before its time, and those that were sent before
// it was complete.
func (w *Workload) viewOf(m *backup.Manifest) *view {
	// The time was issued by the hybrid clock of the leader. Two leaders may have issued the same time only if both
	// are in the same microsecond; the later tick is then too strict for neither.
	from, ok := w.stamped[m.HybridTime]
	if !ok {
		w.host.Fail("backup %s has the time %d, which no node has issued", m.Name, m.HybridTime)
	}
	until := w.until[m.HybridTime]
	if until == 0 {
		until = w.host.Tick() // the answer was lost
	}
	return &view{
		acknowledged: func(s *span) bool { return s.acked != 0 && s.acked < from },
		begun:        func(s *span) bool { return s.call < until },
		text:         fmt.Sprintf("backup %s began at %d, and ended before %d", m.Name, from, until),
	}
}

// momentView returns the view of a moment. Its changes are compared by the hybrid clock alone: the stamps of all
// replicas are between those that the coordinator took before it sent the change, and when it was acknowledged.
func momentView(moment int64) *view {
	return &view{
		acknowledged: func(s *span) bool { return s.ackedAt != 0 && s.ackedAt <= moment },
		begun:        func(s *span) bool { return s.begunAt < moment },
		text:         fmt.Sprintf("the moment is %d", moment),
	}
}

const (
	// momentsMost bounds the restorations of moments during the faults, and momentsChecked those in the healed cluster.
	momentsMost, momentsChecked = 3, 3
	// archivedMost bounds the wait for the archive in the healed cluster, after the largest jump of a clock.
	archivedMost = 2 * time.Minute
	// truncateMost is longer than the timeout of a TRUNCATE.
	truncateMost = 3 * time.Second
)

// operateMoments notes moments, restores some of them while faults strike, and truncates the table.
func (w *Workload) operateMoments() {
	r := w.timing
	w.host.Later(r.Between(50*time.Millisecond, 400*time.Millisecond), "moments", func() {
		w.operateMoments()
		what, which, back := r.Intn(100), r.Uint64(), r.Between(0, time.Second)
		p := w.any(r)
		if p == nil {
			return
		}
		switch {
		case what < 60:
			// Also of a moment that has passed, which is before the last stamps of some nodes.
			at := p.Stamp() - back.Microseconds()*int64(what%2)
			w.moments, w.moved[at] = append(w.moments, at), p.moved()
		case what < 75:
			w.truncate(p)
		case w.running == 0 && len(w.moments) > 0 && w.momentsRestored() < momentsMost:
			x := &restored{from: &made{}, moment: w.moments[which%uint64(len(w.moments))],
				name: fmt.Sprint("moment", len(w.restored))}
			w.restored = append(w.restored, x)
			w.restore(p, x)
		}
	})
}

// momentsRestored returns the number of restorations of moments that were begun.
func (w *Workload) momentsRestored() (n int) {
	for _, x := range w.restored {
		if x.moment != 0 {
			n++
		}
	}
	return n
}

// truncate truncates the table that is written and backed up.
func (w *Workload) truncate(p *Process) {
	table := w.host.Table(Saved)
	t := &span{call: w.host.Tick(), begunAt: p.Stamp()}
	w.truncated = append(w.truncated, t)
	w.host.Excuse(table.StorageID)
	w.task(p, meetings.Truncate, func(ctx context.Context) error {
		var result error
		err := p.await(ctx, func(done func()) {
			w.host.Truncating(true)
			p.Instance.Coordinator.Truncate(table, truncateMost, func(err error) {
				if result = err; err == nil {
					t.acked, t.ackedAt = w.host.Tick(), p.Stamp()
					w.host.Truncating(false)
				}
				done()
			})
		})
		if err == nil {
			err = result
		}
		return err
	})
}

// checkMoments restores some moments in the healed cluster, and compares the tables. What is refused must be refused
// for a reason.
func (w *Workload) checkMoments() {
	if !w.Archive || !slices.ContainsFunc(w.backups, func(b *made) bool { return b.complete }) {
		return
	}
	slices.Sort(w.moments)
	for i, moment := range w.chosenMoments() {
		w.checkMoment(i, moment)
	}
}

// chosenMoments returns the moments to check: the last one, those that follow the last changes of the ring, whose
// backup is of an earlier ring, and others from the later half, because earlier ones are mostly before the first
// backup.
func (w *Workload) chosenMoments() (out []int64) {
	add := func(moment int64) {
		if len(out) < momentsChecked && !slices.Contains(out, moment) {
			out = append(out, moment)
		}
	}
	all := len(w.moments)
	if all > 0 {
		add(w.moments[all-1])
	}
	for i := all - 1; i > 0; i-- {
		if w.moved[w.moments[i]] != w.moved[w.moments[i-1]] {
			add(w.moments[i])
		}
	}
	for i := range min(all, momentsChecked) {
		add(w.moments[all-1-i*all/(2*momentsChecked)])
	}
	return out
}

// checkMoment restores one moment in the healed cluster.
func (w *Workload) checkMoment(number int, moment int64) {
	late := func() string {
		for _, p := range w.host.Processes() {
			if p.archive == nil || p.archive.Stats().Until < moment || p.Clock.Now().UnixMicro() < moment {
				return p.Name
			}
		}
		return ""
	}
	w.kernel.RunUntil(w.kernel.Now()+archivedMost, func() bool { return late() == "" })
	if name := late(); name != "" {
		w.host.Fail("%s has not archived its log until %d in a healed cluster", name, moment)
		return
	}
	what := fmt.Sprint("restoring the moment ", moment)
	x := &restored{from: &made{}, moment: moment, name: fmt.Sprint("at", number)}
	refused, changed := false, false
	ok := w.must(w.host, w.kernel, what, func(ctx context.Context, p *Process) error {
		r := w.restoration(x)
		if _, err := p.node.Plan(ctx, p.open(w.store, location), &r); err != nil {
			refused = w.mayRefuse(err)
			if refused {
				return nil
			}
			return err
		}
		changed = slices.ContainsFunc(w.backups, func(b *made) bool {
			return b.name == r.Name && b.moved != w.moved[moment]
		})
		return p.node.Restore(ctx, &r, increasing(w.host))
	})
	if ok && !refused {
		w.host.Count("moments restored")
		if changed {
			w.host.Count("moments restored after a change of the ring")
		}
		w.compare(w.host, w.host.Table(x.name), momentView(moment), what)
	}
}

// mayRefuse reports whether a moment may be refused with an error, and counts it.
func (w *Workload) mayRefuse(err error) bool {
	// The log of a node whose disk was lost, and that was replaced later, ends with the disk.
	var missing *backup.LogProblem
	if errors.As(err, &missing) && !w.isMember(missing.Host) {
		w.host.Count("moments refused: a disk was lost")
		return true
	}
	for text, reason := range map[string]string{
		"no backup was completed before": "before the first backup",
		"when was not archived":          "during an unknown change",
		backup.ErrNoBackup.Error():       "without a backup",
	} {
		if strings.Contains(err.Error(), text) {
			w.host.Count("moments refused: " + reason)
			return true
		}
	}
	return false
}

// isMember reports whether a node with a host id is a member of the healed ring.
func (w *Workload) isMember(host string) bool {
	return slices.ContainsFunc(w.host.Processes(), func(p *Process) bool {
		return p.Instance.Cluster.HostID().String() == host
	})
}
