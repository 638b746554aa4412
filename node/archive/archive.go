package archive

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"cqld/auth"
	"cqld/backup"
	"cqld/cluster/metadata"
	"cqld/internal/env"
	"cqld/schema"
	"cqld/storage/logarchive"
)

const (
	// every is the pause between two rounds. The data loss of a lost ring is bounded by it and the time of a request.
	every = 4 * time.Second
	// retryMin and retryMax bound the pauses after failures, which double. A store repeats its requests itself, for up
	// to half a minute, so few rounds fail.
	retryMin = time.Second
	retryMax = 15 * time.Second
	// pendingMax bounds the states of the metadata that wait for the store.
	pendingMax = 1000
)

// Log is the log of the storage engine (storage.Log). Run calls it from one goroutine.
type Log interface {
	// Read returns the log after a position, as far as it is on disk, and at most about maxBytes of it. The error is a
	// *logarchive.Gap if it was deleted.
	Read(after logarchive.Position, maxBytes int) (logarchive.Segment, error)
	// Release lets the engine delete the log before a position.
	Release(upTo logarchive.Position)
	// Beginning returns where the log begins, if it contains everything that was ever written to the engine.
	Beginning() (p logarchive.Position, ok bool)
}

// Options configure New. All fields are required.
type Options struct {
	Open func() (*backup.Store, error) // opens the store
	Log  Log
	// Owner identifies the node. ok is false until it is a member of a cluster.
	Owner    func() (owner backup.LogOwner, ok bool)
	Metadata func() *metadata.Metadata
	Stamp    func() int64 // the hybrid clock, in microseconds
	Clock    env.Clock
	Await    env.Await
	Logger   *slog.Logger
}

// Archive stores the log of one node. Run does the work; the other methods may be called concurrently. It has one
// segment in memory, compressed and uncompressed, and the states that wait. Only Run does I/O: MetadataChanged is
// called by the loop of the metadata, which must not wait for a store.
type Archive struct {
	o Options

	// Used by Run only. connected means that the position is known, and waiting that there is no store yet.
	connected bool
	waiting   bool
	logs      backup.Logs
	memory    *backup.Memory // of the store
	owner     backup.LogOwner
	position  logarchive.Position

	mu struct {
		sync.Mutex
		pending []observed
		// seen is the last state that was added to pending.
		seen    *metadata.Metadata
		running bool
		// wake ends the pause of Run; nil while it works, or waits after a failure.
		wake func()
		// inherited means that the first state in pending is of an earlier process.
		inherited bool
		stats     Stats
	}
}

// observed is a state of the metadata that the node has applied. The state is shared with the cluster and not modified,
// and is encoded when it is stored: most states share most of their memory with the present one.
type observed struct {
	at, unknown int64 // see backup.Observed
	state       *metadata.Metadata
}

// Stats describe what was archived since the process was started. They are of this process: the archive itself has no
// counters, and a list of its names shows what it has.
type Stats struct {
	Until    int64 // hybrid time (µs) until which the archive is complete; 0 means that this is unknown
	Began    int64 // hybrid time (µs) at which the process began to archive
	Bytes    int64 // of the log
	Segments int64
	Failures int64 // rounds that failed
	Gaps     int64 // parts of the log that were gone before they were archived
}

// New returns an archive that does nothing until Run.
func New(o Options) *Archive {
	a := &Archive{o: o}
	a.mu.stats.Began = o.Stamp()
	return a
}

// Stats returns what was archived.
func (a *Archive) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.stats
}

// MetadataChanged notes that the node has applied a state, which is not modified. It does not block.
func (a *Archive) MetadataChanged(now *metadata.Metadata) {
	a.mu.Lock()
	// While the node replays its log of the metadata, and until it is a member, there is nothing to note.
	ignored := !a.mu.running || len(now.Topology.Nodes()) == 0 || a.mu.seen != nil && same(a.mu.seen, now)
	var wake func()
	if !ignored {
		a.addLocked(now)
		wake = a.mu.wake
	}
	a.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// start adds the state with which the process begins. The node may have applied it before its last process ended
// (connect).
func (a *Archive) start() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.running = true
	// Under the lock: changes that are applied later are added after it.
	if now := a.o.Metadata(); len(now.Topology.Nodes()) > 0 {
		a.addLocked(now)
		a.mu.inherited = true
	}
}

// addLocked adds a state. The stamp is drawn under the lock: a round that has read the log until a time finds all
// states with earlier stamps.
func (a *Archive) addLocked(state *metadata.Metadata) {
	at, unknown := a.o.Stamp(), int64(0)
	if n := len(a.mu.pending); n == pendingMax {
		// The last ones are replaced: since the first of them, the times of the states are unknown.
		last := a.mu.pending[n-1]
		unknown = last.at
		if last.unknown != 0 {
			unknown = last.unknown
		}
		a.mu.pending = a.mu.pending[:n-1]
	}
	a.mu.pending = append(a.mu.pending, observed{at: at, unknown: unknown, state: state})
	a.mu.seen = state
}

// same reports whether two states have the same schema, roles and ring. The values are shared while they do not change.
func same(a, b *metadata.Metadata) bool {
	return a.Schema == b.Schema && a.Roles == b.Roles && a.Topology.Moved() == b.Topology.Moved()
}

// Run archives until ctx ends. It repeats what fails.
func (a *Archive) Run(ctx context.Context) {
	a.start()
	retry, warned := retryMin, time.Duration(0)
	for {
		more, err := a.round(ctx)
		if ctx.Err() != nil {
			return
		}
		// A round that fails is repeated soon at first: most failures are short.
		pause := every
		switch now := a.o.Clock.Monotonic(); {
		case err != nil:
			// What has failed may have been executed, or the location may be another one now.
			a.connected = false
			a.count(func(s *Stats) { s.Failures++ })
			// The metric has each failure.
			if warned == 0 || now-warned >= time.Minute {
				warned = max(now, 1)
				a.o.Logger.Warn("the log is not archived; it is repeated", "err", err)
			}
			pause, retry = retry, min(2*retry, retryMax)
		case more:
			pause, retry = 0, retryMin
		default:
			retry, warned = retryMin, 0
		}
		if pause > 0 && a.pause(ctx, pause, err == nil && a.connected) != nil {
			return
		}
	}
}

// pause waits for d, until a state waits for the store if waken is true, or until ctx ends, whose error it returns.
func (a *Archive) pause(ctx context.Context, d time.Duration, waken bool) error {
	return a.o.Await(ctx, func(done func()) {
		a.mu.Lock()
		waiting := len(a.mu.pending) > 0
		if a.mu.wake = nil; waken {
			a.mu.wake = done
		}
		a.mu.Unlock()
		// A late timer has no effect.
		a.o.Clock.After(d, done)
		if waken && waiting {
			done()
		}
	})
}

// count changes the statistics.
func (a *Archive) count(f func(*Stats)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.mu.stats)
}

// round archives what is there, at most one segment. more means that there is more.
func (a *Archive) round(ctx context.Context) (more bool, err error) {
	if !a.connected {
		if ready, err := a.connect(ctx); err != nil || !ready {
			return false, err
		}
	}
	// The log is first: what is applied and committed later has later times.
	size, needs := a.memory.Segment()
	defer a.memory.Charge(needs)()
	g, err := a.o.Log.Read(a.position, int(size))
	var gap *logarchive.Gap
	if errors.As(err, &gap) {
		a.count(func(s *Stats) { s.Gaps++ })
		a.o.Logger.Error("a part of the log was gone before it was archived: moments after it need a new backup",
			"after", gap.After.String(), "until", gap.Oldest.String())
		a.position = gap.Oldest
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if err := a.putStates(ctx); err != nil {
		return false, err
	}
	// An idle node replaces one note instead of adding segments.
	if g.From == g.To {
		// 0 means that a commit is being written: the next round finds it.
		if g.Until > 0 {
			err = a.logs.PutEnd(ctx, a.owner, backup.LogEnd{Position: backup.LogPosition(g.To), Until: g.Until,
				Data: g.Data})
		}
	} else {
		_, err = a.logs.PutSegment(ctx, a.owner, backup.Segment{From: backup.LogPosition(g.From),
			To: backup.LogPosition(g.To), First: g.First, Until: g.Until, Stored: a.o.Stamp()}, g.Data)
	}
	if err != nil {
		return false, err
	}
	// The store has it, so the disk need not keep it.
	if g.From != g.To {
		a.o.Log.Release(g.To)
		a.count(func(s *Stats) { s.Segments, s.Bytes = s.Segments+1, s.Bytes+int64(len(g.Data)) })
	}
	a.position = g.To
	a.count(func(s *Stats) { s.Until = max(s.Until, g.Until) })
	return g.Until == 0, nil
}

// connect opens the store and finds the position where the archive continues. ready is false until the node is a member
// and the first backup was begun. Until then, the log is kept on disk.
func (a *Archive) connect(ctx context.Context) (ready bool, err error) {
	owner, ok := a.o.Owner()
	if !ok {
		return false, nil
	}
	s, err := a.o.Open()
	if err != nil {
		return false, err
	}
	logs := s.Logs()
	if err := logs.Check(ctx); errors.Is(err, backup.ErrNoStore) {
		if !a.waiting {
			a.waiting = true
			a.o.Logger.Info("the log is archived from the first backup on")
		}
		return false, nil
	} else if err != nil {
		return false, err
	}
	end, err := logs.End(ctx, owner)
	if err != nil {
		return false, err
	}
	// A node that has just joined is in no backup: its log is the only way to its rows.
	if p, ok := a.o.Log.Beginning(); ok {
		if err := logs.PutBeginning(ctx, owner, backup.LogPosition(p)); err != nil {
			return false, err
		}
	}
	all, err := logs.Observations(ctx, owner)
	if err != nil {
		return false, err
	}
	// The content decides whether the present state is another one: epochs also increase by other changes.
	var last *backup.State
	if len(all) > 0 {
		if last, err = logs.State(ctx, owner.Cluster, all[len(all)-1].Hash); err != nil {
			return false, err
		}
	}
	if err := a.inherit(last, end.Until); err != nil {
		return false, err
	}
	a.connected, a.logs, a.owner, a.position = true, logs, owner, logarchive.Position(end.Position)
	a.memory = s.Memory()
	if !a.position.IsZero() {
		a.o.Log.Release(a.position)
	}
	return true, nil
}

// inherit removes the state with which the process began if it is last, the last one that the node has stored.
// Otherwise the node has applied it at an unknown time after until.
func (a *Archive) inherit(last *backup.State, until int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.mu.inherited {
		// The location was emptied since.
		if last == nil && len(a.mu.pending) == 0 && a.mu.seen != nil {
			a.addLocked(a.mu.seen)
		}
		return nil
	}
	a.mu.inherited = false
	if last == nil {
		return nil
	}
	state, err := stateOf(a.mu.pending[0].state)
	if err == nil && last.Equal(state) {
		a.mu.pending = a.mu.pending[1:]
	} else if a.mu.pending[0].unknown == 0 {
		a.mu.pending[0].unknown = until
	}
	return err
}

// stateOf returns a state in the form of the store.
func stateOf(m *metadata.Metadata) (*backup.State, error) {
	roles, err := auth.Encode(m.Roles)
	return &backup.State{Epoch: m.Epoch, Schema: schema.Encode(m.Schema), Roles: roles,
		Members: backup.MembersOf(m.Topology), Owners: true, Moved: m.Topology.Moved()}, err
}

// putStates stores the states that wait.
func (a *Archive) putStates(ctx context.Context) error {
	for {
		a.mu.Lock()
		if len(a.mu.pending) == 0 {
			a.mu.Unlock()
			return nil
		}
		first := a.mu.pending[0]
		a.mu.Unlock()
		// Without the lock, which the loop of the metadata takes.
		state, err := stateOf(first.state)
		if err == nil {
			err = a.logs.PutState(ctx, a.owner, state, backup.Observed{Time: first.at, Unknown: first.unknown})
		}
		if err != nil {
			return err
		}
		a.mu.Lock()
		// Only the last one is ever replaced (addLocked), and pendingMax is greater than 1.
		a.mu.pending = a.mu.pending[1:]
		a.mu.Unlock()
	}
}
