package search

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/env"
	"cqld/schema"
	"cqld/storage/index"
)

// Keeper keeps the indexes of this node (index.Values). Its methods are called by one step at a time, except Progress
// and Rebuild. Pending returns the work in the order in which it is done.
// Build executes one step and is called until more is false. Sweep examines n entries and removes the stale ones; now
// is in seconds since 1970. Refresh adds up to n vectors to each graph.
type Keeper interface {
	Pending(tables []schema.StorageID) []index.Work
	Build(table, id schema.StorageID) (more bool, err error)
	DropIndex(table, id schema.StorageID) error
	Sweep(n int, now int64) (removed int, wrapped bool, err error)
	Refresh(tables []schema.StorageID, n int) (index.Graphs, error)
	Progress(table, id schema.StorageID) index.Progress
	Rebuild(table, id schema.StorageID) error
}

// BuilderOptions configures a Builder. Keeper, Tables, Clock and Run are required.
type BuilderOptions struct {
	Keeper Keeper
	// Tables returns the tables of the schema that have indexes.
	Tables func() []schema.StorageID
	Clock  env.Clock
	Run    func(func()) // runs a function that blocks on the disk
	Log    *slog.Logger // nil discards
	Limits BuilderLimits
	// Worked is called after each step of a build, with the error of a step that failed, and after an index was
	// dropped. It may be nil, and must not block.
	Worked func(index.Work, error)
}

// Builder builds the indexes of this node, removes the entries of those that were dropped, fills graphs of vectors, and
// looks for stale entries, one step at a time. Start begins, once the schema is known. At most one step runs at any
// time, so builds share the disk with requests as one reader:
//
//	Start ─▶ timer ─▶ Run(step) ─▶ pending: build or drop ──┐
//	           ▲                 ─▶ none: Refresh, Sweep ───┤
//	           └────────────── rest ────────────────────────┘
type Builder struct {
	o BuilderOptions
	// sweepAt is used by the running step only.
	sweepAt time.Duration // monotonic; of the next step of the sweep
	// throughput is BuilderLimits.BuildThroughput as it is now. rows, bytes and built count what builds have done.
	throughput, rows, bytes, built atomic.Int64
	mu                             struct {
		sync.Mutex
		started, closed bool
		running         bool // a step runs
		timer           env.Timer
	}
}

// NewBuilder returns a Builder. It does nothing before Start.
func NewBuilder(o BuilderOptions) *Builder {
	o.Limits = o.Limits.withDefaults()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Worked == nil {
		o.Worked = func(index.Work, error) {}
	}
	b := &Builder{o: o}
	b.throughput.Store(o.Limits.BuildThroughput)
	return b
}

// Throughput returns the maximum number of bytes of rows that builds read per second. It may be called from any
// goroutine, like SetThroughput.
func (b *Builder) Throughput() int64 { return b.throughput.Load() }

// SetThroughput changes Throughput; zero means no bound but the rest between steps. A running step keeps the previous
// rate until its rest. The change is lost with the process.
func (b *Builder) SetThroughput(bytes int64) { b.throughput.Store(bytes) }

// Progress returns the progress of the build of an index on this node.
func (b *Builder) Progress(table, id schema.StorageID) index.Progress {
	return b.o.Keeper.Progress(table, id)
}

// Rebuild restarts the build of an index from the beginning. Until it is built, this node does not serve searches by
// the index. Existing entries stay and are written again.
func (b *Builder) Rebuild(table, id schema.StorageID) error {
	if err := b.o.Keeper.Rebuild(table, id); err != nil {
		return err
	}
	b.Start()
	return nil
}

// BuilderStats are counts since the start. A build that begins again counts its rows again.
type BuilderStats struct {
	Rows, Bytes int64 // that builds have read
	Built       int64 // builds that are complete
}

// Stats returns the counts.
func (b *Builder) Stats() BuilderStats {
	return BuilderStats{Rows: b.rows.Load(), Bytes: b.bytes.Load(), Built: b.built.Load()}
}

// Start begins the work, or checks at once for new work after a change of the schema. It ends a rest between two
// steps, even the one after a failure. It may be called at any time, from any goroutine.
func (b *Builder) Start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.started = true
	if b.mu.timer != nil {
		b.mu.timer.Stop()
		b.mu.timer = nil
	}
	b.armLocked(0)
}

// Close ends the work. It does not wait for a step that runs. The caller must end the functions of Run before it closes
// the storage.
func (b *Builder) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = true
	if b.mu.timer != nil {
		b.mu.timer.Stop()
	}
}

// armLocked plans the next step. b.mu must be held. Nothing is planned while a timer waits, so there is never more than
// one.
func (b *Builder) armLocked(after time.Duration) {
	// A running step plans the next one itself.
	if b.mu.closed || !b.mu.started || b.mu.running || b.mu.timer != nil {
		return
	}
	b.mu.timer = b.o.Clock.After(after, func() {
		b.mu.Lock()
		b.mu.timer = nil
		// Start may have planned another step since the timer fired.
		begin := !b.mu.closed && !b.mu.running
		b.mu.running = b.mu.running || begin
		b.mu.Unlock()
		if begin {
			// The step does not run in the goroutine of the clock, because it reads the disk.
			b.o.Run(b.step)
		}
	})
}

// step does one step of the first work, or of the sweep.
func (b *Builder) step() {
	rest := b.work()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.running = false
	b.armLocked(rest)
}

// work returns how long to rest after the step.
func (b *Builder) work() time.Duration {
	tables := b.o.Tables()
	pending := b.o.Keeper.Pending(tables)
	// Builds come first: searches by their indexes fail until they end.
	if len(pending) == 0 {
		return b.maintain(tables)
	}
	// One index is built at a time, apart from first steps.
	w := pending[0]
	var err error
	rest := b.o.Limits.BuildPause
	if w.Drop {
		err = b.o.Keeper.DropIndex(w.Table, w.Index)
	} else {
		rest, err = b.build(w)
	}
	b.o.Worked(w, err)
	if err != nil {
		b.o.Log.Error("an index could not be built or dropped; it is tried again", "table", w.Table, "index", w.Index,
			"err", err)
		return b.o.Limits.Retry
	}
	return rest
}

// build does one step of a build. It returns how long to rest after it. The rate is bounded by the rest: with 64 MiB/s
// and a step that has read 4 MiB in 20 ms, it is 62.5 − 20 = 42.5 ms.
func (b *Builder) build(w index.Work) (time.Duration, error) {
	before, began := b.o.Keeper.Progress(w.Table, w.Index), b.o.Clock.Monotonic()
	more, err := b.o.Keeper.Build(w.Table, w.Index)
	if err != nil {
		return 0, err
	}
	after := b.o.Keeper.Progress(w.Table, w.Index)
	if !more && after.Built {
		b.built.Add(1)
	}
	read := max(after.Bytes-before.Bytes, 0) // what was read before the entries were lost does not count
	b.rows.Add(max(after.Rows-before.Rows, 0))
	b.bytes.Add(read)
	rest := b.o.Limits.BuildPause
	if rate := b.throughput.Load(); rate > 0 {
		// The step has read without pausing, so the rest afterwards enforces the rate.
		due := time.Duration(float64(read) / float64(rate) * float64(time.Second))
		rest = max(rest, due-(b.o.Clock.Monotonic()-began))
	}
	return rest, nil
}

// maintain fills graphs of vectors, and sweeps if a sweep is due. The graphs are refreshed at every call and the
// sweep at its own times, so a graph that fills does not delay the sweep.
func (b *Builder) maintain(tables []schema.StorageID) time.Duration {
	graphs, err := b.o.Keeper.Refresh(tables, b.o.Limits.RefreshVectors)
	if err != nil {
		b.o.Log.Error("a graph of vectors could not be filled; searches look at all vectors meanwhile", "err", err)
		return b.o.Limits.Retry
	}
	now := b.o.Clock.Monotonic()
	if now >= b.sweepAt {
		b.sweepAt = now + b.sweep()
	}
	rest := max(b.sweepAt-now, 0)
	switch {
	case graphs.More:
		rest = min(rest, b.o.Limits.RefreshPause)
	case graphs.Any:
		rest = min(rest, b.o.Limits.RefreshRest)
	}
	return rest
}

// sweep does one step of the sweep, and returns how long to rest after it. wrapped means that the sweep has reached
// the end of all indexes, and begins again after SweepRest.
func (b *Builder) sweep() time.Duration {
	_, wrapped, err := b.o.Keeper.Sweep(b.o.Limits.SweepEntries, b.o.Clock.Now().Unix())
	switch {
	case err != nil:
		b.o.Log.Error("stale entries of indexes could not be removed; it is tried again", "err", err)
		return b.o.Limits.Retry
	case wrapped:
		return b.o.Limits.SweepRest
	}
	return b.o.Limits.SweepPause
}
