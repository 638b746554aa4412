package simulation

import (
	"fmt"
	"time"

	"cqld/schema"
	"cqld/simulation/backups"
	"cqld/simulation/kernel"
	"cqld/simulation/texttable"
)

// backupHost makes a cluster the host of a workload of backups.
type backupHost struct {
	*Cluster
	processes map[*process]*backups.Process
	// fresh is the new ring of the run, or nil.
	fresh *Cluster
	// failed records a violation.
	failed func(format string, args ...any)
}

// backupsKind returns the workload of package backups. unsafe sets the faults that a run must find.
func backupsKind(unsafe func(*backups.Workload)) workloadKind {
	return workloadKind{name: "backups", tables: tables(texttable.New(backups.Saved), texttable.New(backups.Replaced)),
		make: func(c *Cluster) workload {
			h := &backupHost{Cluster: c, processes: map[*process]*backups.Process{}, failed: c.fail}
			w := backups.New(h, c.kernel, c.options.Seed)
			unsafe(w)
			return savedWorkload{w, h}
		}}
}

// savedWorkload is the workload of package backups as this package sees it.
type savedWorkload struct {
	*backups.Workload
	host *backupHost
}

func (w savedWorkload) start()                     { w.Start() }
func (w savedWorkload) idle() bool                 { return w.Idle() }
func (w savedWorkload) readBack()                  { w.ReadBack() }
func (w savedWorkload) counts() (tried, acked int) { return w.Counts() }

// check ends the processes of the new ring, too: their stores would stay in memory.
func (w savedWorkload) check() {
	w.Check()
	if c := w.host.fresh; c != nil {
		c.result()
	}
}

// Processes implements backups.Host.
func (h *backupHost) Processes() (out []*backups.Process) {
	for _, n := range h.nodes {
		l := n.process
		if !l.serves() {
			continue
		}
		if h.processes[l] == nil {
			h.processes[l] = &backups.Process{Scheduler: l.Scheduler, Name: fmt.Sprint("node ", n.id),
				Instance: l.instance, Transport: l.transport, Clock: clock{l}, Stamp: l.hlc.Next, Disk: l.data,
				Dir: dataDir, Write: l.write,
				Failing: func() bool { return n.faults.Any() || n.damaged || l.fatal.Load() != nil }}
			l.observe = h.processes[l].MetadataChanged
		}
		out = append(out, h.processes[l])
	}
	return out
}

// Table implements backups.Host.
func (h *backupHost) Table(name string) *schema.Table {
	if h.metadata() == nil {
		return nil // no process runs
	}
	return h.table(name)
}

// Tick implements backups.Host.
func (h *backupHost) Tick() int64 { return h.order.tick() }

// Stamp implements backups.Host.
func (h *backupHost) Stamp() int64 { return h.order.stamp() }

// Healed implements backups.Host.
func (h *backupHost) Healed() bool { return h.healed }

// Later implements backups.Host.
func (h *backupHost) Later(d time.Duration, label string, f func()) { h.later(d, label, f) }

// Fail implements backups.Host.
func (h *backupHost) Fail(format string, args ...any) { h.failed(format, args...) }

// Count implements backups.Host.
func (h *backupHost) Count(event string) { h.count(event) }

// Begin implements backups.Host.
func (h *backupHost) Begin(operation string) func() {
	return h.meetings.Begin(operation, 2*time.Minute)
}

// Excuse implements backups.Host.
func (h *backupHost) Excuse(id schema.StorageID) { h.verify.excused.truncated(id) }

// Truncating implements backups.Host.
func (h *backupHost) Truncating(begins bool) {
	if begins {
		h.truncating++
	} else {
		h.truncating--
	}
}

// Fresh implements backups.Host.
func (h *backupHost) Fresh(nodes, factor int) (backups.Host, *kernel.Kernel) {
	o := DefaultOptions(h.options.Seed)
	o.Nodes, o.Factor, o.Workloads, o.FaultKinds, o.Points = nodes, factor, nil, nil, nil
	c := NewCluster(o)
	for _, f := range c.failures {
		h.Fail("a new ring: %s", f)
	}
	h.fresh = c
	return &backupHost{Cluster: c, processes: map[*process]*backups.Process{}, failed: h.failed}, c.kernel
}
