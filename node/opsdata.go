package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"cqld/jobs"
	"cqld/node/clients"
	"cqld/node/control"
	"cqld/schema"
)

func (n *Node) opFlush(_ context.Context, a control.TablesArgs, _ control.Report) (control.None, error) {
	if _, err := n.tablesOf(a); err != nil {
		return control.None{}, err
	}
	return control.None{}, n.engine.Flush() // tables share their memtables
}

// opCompact compacts tables, as a job.
func (n *Node) opCompact(ctx context.Context, a control.TablesArgs, report control.Report) (none control.None,
	err error) {
	if _, err := n.tablesOf(a); err != nil {
		return none, err
	}
	return none, n.startJob(ctx, jobs.Compaction, targetOf(a), jobs.Bytes, a, n.compactionWork(a), report)
}

// compactionWork returns the work of a compaction. Its checkpoint is the name of the last table compacted; tables are
// processed in the order of their names.
func (n *Node) compactionWork(a control.TablesArgs) jobWork {
	return func(ctx context.Context, j *jobs.Job) error {
		tables, err := n.tablesOf(a)
		if err != nil {
			return err
		}
		name := func(t *schema.Table) string { return t.Keyspace + "." + t.Name }
		slices.SortFunc(tables, func(a, b *schema.Table) int { return strings.Compare(name(a), name(b)) })
		if err := n.engine.Flush(); err != nil {
			return err
		}
		sizes, total := make([]int64, len(tables)), int64(0)
		for i, t := range tables {
			size, err := n.engine.TableSize(t.StorageID)
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
				if err := n.engine.CompactTable(ctx, t.StorageID, part); err != nil && !n.dropped(t.StorageID, err) {
					return err
				}
				j.SetCheckpoint([]byte(name(t)))
			}
			done += sizes[i]
		}
		return nil
	}
}

// opDrain prepares the node for a stop: it refuses clients until the process ends, and flushes everything.
func (n *Node) opDrain(ctx context.Context, _ control.None, report control.Report) (control.None, error) {
	report(control.Progress{What: "waiting for requests in progress", Total: 2})
	err := n.servers.Drain(ctx) // requests that do not end must not prevent the flush
	report(control.Progress{What: "flushing", Done: 1, Total: 2})
	if err := errors.Join(err, n.engine.Flush()); err != nil {
		return control.None{}, err
	}
	n.log.Info("node drained; it refuses clients until it is restarted")
	return control.None{}, nil
}

// opStop has the process stop the node, as SIGTERM does. The answer comes first.
func (n *Node) opStop(context.Context, control.None, control.Report) (control.None, error) {
	n.log.Info("stop requested by an operator")
	n.stopOnce.Do(func() { close(n.stopRequested) })
	return control.None{}, nil
}

// StopRequested is closed when an operator has asked the process to stop the node.
func (n *Node) StopRequested() <-chan struct{} { return n.stopRequested }

func (n *Node) opReady(context.Context, control.None, control.Report) (control.Switch, error) {
	if err := n.servers.Ready(); err != nil {
		return control.Switch{Why: err.Error()}, nil
	}
	return control.Switch{On: true}, nil
}

func (n *Node) opBinaryOf(context.Context, control.None, control.Report) (control.Switch, error) {
	if err := n.clockRefusal(); err != nil {
		return control.Switch{Why: err.Error()}, nil
	}
	return control.Switch{On: n.servers.Accepting()}, nil
}

func (n *Node) opSetBinary(ctx context.Context, a control.Switch, _ control.Report) (control.Switch, error) {
	if !a.On {
		return a, n.servers.StopCQL(ctx)
	}
	err := n.servers.StartCQL()
	switch {
	case errors.Is(err, clients.ErrDrained):
		err = &control.Error{Code: control.Refused, Message: "the node is drained: restart it"}
	case errors.Is(err, clients.ErrNotMember):
		err = &control.Error{Code: control.Refused, Message: err.Error()}
	}
	return a, err
}

func (n *Node) opHandoffOf(context.Context, control.None, control.Report) (control.Switch, error) {
	return control.Switch{On: n.parts.Hints.Accepting()}, nil
}

func (n *Node) opSetHandoff(_ context.Context, a control.Switch, _ control.Report) (control.Switch, error) {
	n.parts.Hints.SetAccepting(a.On)
	return a, nil
}

func (n *Node) opTimeouts(context.Context, control.None, control.Report) (control.Timeouts, error) {
	return control.Timeouts{Timeouts: map[string]time.Duration{"read": n.opts.ReadTimeout, "range": n.opts.RangeTimeout,
		"write": n.opts.WriteTimeout, "truncate": n.opts.TruncateTimeout}}, nil
}

func (n *Node) opSeeds(context.Context, control.None, control.Report) (control.Seeds, error) {
	out := control.Seeds{Seeds: []string{}}
	for _, s := range n.opts.SeedTexts() {
		if s != n.opts.Internode().String() {
			out.Seeds = append(out.Seeds, s)
		}
	}
	return out, nil
}

func (n *Node) opLogging(context.Context, control.None, control.Report) (control.Logging, error) {
	if n.opts.LogLevel == nil {
		return control.Logging{}, control.NotSupported("a level of this logger")
	}
	return control.Logging{Level: n.opts.LogLevel.Level().String()}, nil
}

func (n *Node) opSetLogging(_ context.Context, a control.Logging, _ control.Report) (control.Logging, error) {
	if n.opts.LogLevel == nil {
		return a, control.NotSupported("a level of this logger")
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.Level)); err != nil {
		return a, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("%q is not one of debug, info, warn, error", a.Level)}
	}
	n.opts.LogLevel.Set(level)
	return control.Logging{Level: level.String()}, nil
}
