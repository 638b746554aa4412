package node

import (
	"sync"

	"cqld/internal/guard"
	"cqld/node/assembly"
	"cqld/node/sysviews"
	"cqld/query"
)

// workGroup is a group of goroutines that their owner waits for. Add and Wait are the embedded group's. The zero value
// with a guard is ready. Go must not be called after Wait has returned.
type workGroup struct {
	sync.WaitGroup
	guard *guard.Guard
}

// Go runs f in a goroutine. A panic ends only f: f is a job that is repeated, or whose failure is reported. f must
// return soon after the node's lifetime has ended, because Close waits for it without a bound.
func (w *workGroup) Go(f func()) {
	w.WaitGroup.Go(func() {
		defer w.guard.Recover("background job", nil)
		f()
	})
}

// Critical runs a function that the node cannot work without: a panic of f is passed to fail. The caller passes errors
// of f to fail itself; the guard sees panics only.
func (w *workGroup) Critical(fail func(error), f func()) {
	w.WaitGroup.Go(func() {
		defer w.guard.Recover("node", fail)
		f()
	})
}

// requests returns storage as this node's replica uses it. It measures the requests of each table, and makes snapshots
// before rows are truncated.
func (n *Node) requests() assembly.RequestEngine {
	var e assembly.RequestEngine = n.measured
	if n.opts.Snapshots.Auto {
		e = &snapshotEngine{n.measured, n}
	}
	if f := n.faults.engine; f != nil {
		e = f(e)
	}
	return e
}

// virtualTables returns the source of the virtual tables of this node. The processor is replaced only when the servers
// are opened, so it is read for each use.
func (n *Node) virtualTables() query.VirtualSource {
	source := sysviews.New(sysviews.Options{Config: &n.opts, Instance: n.instance, Servers: n.servers,
		Tables:    n.measured,
		Estimates: n.estimates, Commands: n.commands, Roles: n.access.Roles, Clock: n.clock,
		Processor: func() *query.Processor { return n.processor }})
	if f := n.faults.virtual; f != nil {
		return f(source)
	}
	return source
}
