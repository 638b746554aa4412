package replica

import (
	"fmt"
	"time"

	"cqld/coordinator"
	"cqld/row"
)

// Traced implements coordinator.TraceableReplica: requests ask for a trace, and the events in the node's answer are
// added to t.
func (r *Remote) Traced(t coordinator.Trace) coordinator.Replica {
	// The Remote is copied, because other requests use the one of the directory at the same time.
	traced := *r
	traced.transport = TracedTransport(r.transport, t)
	return &traced
}

// Traced implements coordinator.TraceableReplica.
func (l *Local) Traced(t coordinator.Trace) coordinator.Replica {
	self := l.view.Self()
	return &tracedLocal{l, func(activity string) { t.Add(self, activity) }}
}

// tracedLocal is a Local of one traced request. Reads and writes add events.
type tracedLocal struct {
	*Local
	add func(activity string)
}

// Apply implements coordinator.Replica.
func (l *tracedLocal) Apply(epoch uint64, mutations []*row.Mutation, timeout time.Duration, done func(error)) {
	l.Local.Apply(epoch, mutations, timeout, l.traceApply(l.add, mutations, done))
}

// Read implements coordinator.Replica.
func (l *tracedLocal) Read(epoch uint64, cmd *row.ReadCommand, timeout time.Duration,
	done func(page []byte, err error)) {
	l.Local.Read(epoch, cmd, timeout, l.traceRead(l.add, cmd, done))
}

// ReadHere implements coordinator.Blocking.
func (l *tracedLocal) ReadHere(epoch uint64, cmd *row.ReadCommand, timeout time.Duration,
	done func(page []byte, err error)) {
	l.Local.ReadHere(epoch, cmd, timeout, l.traceRead(l.add, cmd, done))
}

// traceApply adds an event of the mutations, and returns a function that adds an event of their end and then calls
// done.
func (l *Local) traceApply(add func(string), mutations []*row.Mutation, done func(error)) func(error) {
	catalog := l.view.Schema()
	for _, m := range mutations {
		// The table may have been dropped since the request was planned.
		name := "a dropped table"
		if t := catalog.TableByStorage(m.Table); t != nil {
			name = t.Keyspace + "." + t.Name
		}
		add("Applying mutation of " + name)
	}
	return func(err error) {
		if err != nil {
			add("Mutation failed: " + err.Error())
		} else {
			add("Mutation is applied")
		}
		done(err)
	}
}

// traceRead adds an event of the read, and returns a function that adds an event of the page and then calls done.
func (l *Local) traceRead(add func(string), cmd *row.ReadCommand, done func(page []byte, err error)) func([]byte,
	error) {
	name := "a dropped table"
	if t := l.view.Schema().TableByStorage(cmd.Table); t != nil {
		name = t.Keyspace + "." + t.Name
	}
	if cmd.SinglePartition() {
		add("Executing single-partition query on " + name)
	} else {
		add(fmt.Sprintf("Executing range query on %s for (%d,%d]", name, cmd.Range.Tokens.Start, cmd.Range.Tokens.End))
	}
	return func(page []byte, err error) {
		if err != nil {
			add("Read failed: " + err.Error())
		} else {
			add(traceOfPage(page))
		}
		done(page, err)
	}
}

// traceOfPage describes a page that a replica has read. Rows of the page may be deleted: the coordinator needs the
// deletions.
func traceOfPage(page []byte) string {
	var p row.PageReader
	var r row.Row
	rows, partitions := 0, 0
	p.Reset(page)
	for p.NextPartition() {
		partitions++
		for p.NextRow(&r) {
			rows++
		}
	}
	return fmt.Sprintf("Read %d rows of %d partitions in %d bytes", rows, partitions, len(page))
}

// Digest implements coordinator.Replica.
func (l *tracedLocal) Digest(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(row.Digest, error)) {
	l.add("Executing digest query")
	l.Local.Digest(epoch, cmd, timeout, done)
}

// DigestHere implements coordinator.Blocking.
func (l *tracedLocal) DigestHere(epoch uint64, cmd *row.ReadCommand, timeout time.Duration,
	done func(row.Digest, error)) {
	l.add("Executing digest query")
	l.Local.DigestHere(epoch, cmd, timeout, done)
}
