package backups

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/auth"
	"cqld/backup"
	"cqld/backup/bucket"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/node/archive"
	"cqld/node/assembly"
	"cqld/node/backups"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/goroutine"
	"cqld/simulation/kernel"
	"cqld/simulation/network"
)

// Process is a process of a node that serves clients.
type Process struct {
	*goroutine.Scheduler
	// Name identifies the process in a run.
	Name      string
	Instance  *assembly.Instance
	Transport *network.Transport
	Clock     env.Clock
	// Stamp returns the next timestamp of the hybrid clock.
	Stamp func() int64
	// Disk has the directory Dir of storage.
	Disk vfs.FS
	Dir  string
	// Failing reports whether the disk fails now.
	Failing func() bool
	Write   func(m *row.Mutation, level ring.Consistency, done func(error))

	// node is nil until attach, archive until beginArchive.
	node    *backups.Node
	archive *archive.Archive
}

// Times of the simulation. Those of production would not end within a run.
const (
	// askMax bounds the wait for the answer of a node, pollMax the time in which the end of a context is noticed.
	askMax  = time.Second
	pollMax = 100 * time.Millisecond
	// pauseMax is how long a node rests after it has made a file part of a table, so that faults meet restorations.
	pauseMax = 30 * time.Millisecond
)

// limits keep the order of production: the leader gives a node up before the leases of the others end. They are shorter
// than in production, so that they end within a run.
func limits() backups.Limits {
	return backups.Limits{Lease: 4 * time.Second, Patience: 2 * time.Second, Confirm: 2 * time.Second,
		Settle: time.Second}
}

// attach gives a process its part of backups, as node/admin does. stamped is called with each time of a backup.
func (p *Process) attach(k *kernel.Kernel, s *store, stamped func(at int64)) error {
	i := p.Instance
	// The fields are in the order of node/admin.openBackups, which is the wiring of production.
	o := backups.Options{Dir: p.Dir, Disk: p.Disk,
		Open:    func(location string) (*backup.Store, error) { return p.open(s, location), nil },
		Cluster: i.Cluster, Engine: i.Engine, Truncations: i.Local.Truncations(), Repaired: i.Repaired,
		ProposeSchema: func(ctx context.Context, c schema.Change) error {
			return p.propose(ctx, func(done func(error)) { i.Cluster.StartSchema(c, done) })
		},
		ProposeRoles: func(ctx context.Context, c auth.Change) error {
			return p.propose(ctx, func(done func(error)) { i.Cluster.StartRoles(c, done) })
		},
		// Pebble repeats a flush that fails until the disk works, in goroutines of its own.
		Flush: func(ctx context.Context) error {
			if p.Failing() {
				return nil
			}
			return i.Engine.FlushUntil(ctx)
		},
		// It is called in the task of the restoration, which may wait.
		Changed: func(id schema.StorageID) {
			i.Local.Changed(id)
			_ = p.sleep(context.Background(), s.random.Between(0, pauseMax))
		},
		Unbuilt: func(table schema.StorageID) bool {
			return len(i.Values.Pending([]schema.StorageID{table})) > 0
		},
		DropGrace: func() time.Duration { return grace * time.Second },
		Lacks:     func() []string { return nil },
		Stamp: func() int64 {
			at := p.Stamp()
			stamped(at)
			return at
		},
		Clock: p.Clock, Await: p.await, Run: func(f func()) { p.Spawn(func() { p.RunTask(f) }) },
		// Tasks end with the process, and the rate is no bound: waits of the pacer would be in calls of Pebble.
		Lifetime: context.Background(), Rate: 1 << 40, Ask: p.ask, Name: "sim",
		ID: func() string { return "sim" }, Build: "sim", Log: slog.New(slog.DiscardHandler), Limits: limits()}
	var err error
	if p.node, err = backups.New(o); err != nil {
		return err
	}
	// Work of a request may wait for the end of a step, which a handler cannot.
	serve := func(_ ring.NodeID, message []byte, respond messaging.Respond) {
		// The transport reuses the memory after the handler has returned.
		message = slices.Clone(message)
		p.RunTask(func() {
			answer, err := p.node.Serve(message)
			respond(p.reply(k, answer), err)
		})
	}
	p.Transport.Handle(messaging.Service{Verb: messaging.VerbControl, Name: "control", Blocking: true, Handler: serve})
	return nil
}

// reply returns an answer without what differs between two runs of a seed: sizes and names of files.
func (p *Process) reply(k *kernel.Kernel, answer []byte) []byte {
	var r backups.Reply
	if json.Unmarshal(answer, &r) != nil {
		return answer
	}
	r.Done, r.Total = 0, 0
	if r.Error != "" {
		k.Note(p.Name, "step of a backup:", r.Error)
		r.Error = "the step failed"
	}
	b, err := json.Marshal(r)
	if err != nil {
		return answer
	}
	return b
}

// open opens the store. Pauses between repetitions are half as long as in production, which draws between half and all
// of them.
func (p *Process) open(s *store, location string) *backup.Store {
	if s.machine != nil {
		return s.mounted(p, location)
	}
	pause := func(ctx context.Context, d time.Duration) error { return p.sleep(ctx, d/2) }
	return backup.OpenBucket(bucket.RepeatAfter(requests{s, p}, pause), location)
}

// ask is backups.Options.Ask. As in node/admin, reply gets an answer of its own, and is called once: with the answer,
// or with an error of the connection or the timeout.
func (p *Process) ask(node ring.NodeID, message []byte, reply func([]byte, error)) {
	p.Transport.Request(node, messaging.VerbControl, message, askMax, func(answer []byte, err error) {
		reply(slices.Clone(answer), err)
	})
}

// await implements env.Await for the tasks of the process. The end of a context is noticed within pollMax. Deferred
// calls of a process that has ended do not wait.
func (p *Process) await(ctx context.Context, begin func(done func())) error {
	if p.Ended() {
		return context.Canceled
	}
	w, ended := p.NewWaiter(), false
	begin(func() {
		if !ended {
			ended = true
			w.Signal()
		}
	})
	// Signals of timers and of done may both arrive: the state decides, not the signal.
	for !ended {
		if err := ctx.Err(); err != nil {
			return err
		}
		timer := p.Clock.After(pollMax, w.Signal)
		w.Wait()
		timer.Stop()
	}
	return nil
}

// sleep waits for d, or until ctx ends.
func (p *Process) sleep(ctx context.Context, d time.Duration) error {
	return env.Await(p.await).Sleep(ctx, p.Clock, d)
}

// propose waits for the result of a change of the metadata. A process that ends meanwhile has no result: its task is
// unwound, and the change may be made nevertheless.
func (p *Process) propose(ctx context.Context, start func(done func(error))) error {
	var result error
	err := p.await(ctx, func(done func()) {
		// The loop of the cluster is an event of its own.
		p.Soon(func() {
			start(func(err error) {
				result = err
				done()
			})
		})
	})
	if err != nil {
		return err
	}
	return result
}
