package search

import (
	"log/slog"
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/schema"
	"cqld/storage/index"
)

// Keeper keeps the indexes of this node (index.Values).
type Keeper interface {
	Pending(tables []schema.StorageID) []index.Work
	Build(table, id schema.StorageID) (more bool, err error)
	DropIndex(table, id schema.StorageID) error
	Sweep(n int, now int64) (removed int, wrapped bool, err error)
}

// BuilderOptions configures a Builder. Keeper, Tables, Clock and Run are required.
type BuilderOptions struct {
	Keeper Keeper
	// Tables returns the tables of the schema.
	Tables func() []schema.StorageID
	Clock  env.Clock
	Run    func(func()) // runs a function that blocks on the disk
	Log    *slog.Logger // nil discards
	Limits BuilderLimits
}

// Builder builds the indexes of this node, removes the entries of those that were dropped, and looks for stale entries, one step at
// a time. Start begins, once the schema is known.
type Builder struct {
	o  BuilderOptions
	mu struct {
		sync.Mutex
		started, closed bool
		running         bool // a step runs
		timer           env.Timer
	}
}

// NewBuilder returns a Builder.
func NewBuilder(o BuilderOptions) *Builder {
	o.Limits = o.Limits.withDefaults()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Builder{o: o}
}

// Start begins, or looks at once for work that has come: the schema has changed.
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

// Close ends the work. It does not wait for a step that runs.
func (b *Builder) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = true
	if b.mu.timer != nil {
		b.mu.timer.Stop()
	}
}

// armLocked plans the next step.
func (b *Builder) armLocked(after time.Duration) {
	if b.mu.closed || !b.mu.started || b.mu.running || b.mu.timer != nil {
		return
	}
	b.mu.timer = b.o.Clock.After(after, func() {
		b.mu.Lock()
		b.mu.timer = nil
		begin := !b.mu.closed && !b.mu.running
		b.mu.running = b.mu.running || begin
		b.mu.Unlock()
		if begin {
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
	pending := b.o.Keeper.Pending(b.o.Tables())
	if len(pending) == 0 {
		return b.sweep()
	}
	w := pending[0]
	var err error
	if w.Drop {
		err = b.o.Keeper.DropIndex(w.Table, w.Index)
	} else {
		_, err = b.o.Keeper.Build(w.Table, w.Index)
	}
	if err != nil {
		b.o.Log.Error("an index could not be built or dropped; it is tried again", "table", w.Table, "index", w.Index, "err", err)
		return b.o.Limits.Retry
	}
	return b.o.Limits.BuildPause
}

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
