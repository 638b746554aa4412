package storage

import (
	"bytes"
	"context"
	"sync"

	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/storage/backlog"
	"cqld/storage/failure"
)

// reclaimer frees the space of removed data. A removal is a range deletion in the memtable. Pebble drops the covered
// files once the deletion itself is in a file. Later writes would cause that flush, but a full disk accepts none, so
// reclaimer flushes. Pebble checks only once, and skips files that a compaction uses, so reclaimer compacts the
// remaining ones.
type reclaimer struct {
	mu      sync.Mutex
	spans   []backlog.Span // removed spans that are not processed yet
	running bool
}

// reclaim frees the space of a removed span soon, in the background.
func (rm *remover) reclaim(start, end []byte) {
	// The simulation must not depend on when a goroutine compacts.
	if rm.opts.Inline {
		return
	}
	r := &rm.reclaimer
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spans) < reclaimSpansMax { // beyond the bound, the span waits for Pebble's own compactions
		r.spans = append(r.spans, backlog.Span{Start: start, End: end})
		invariant.Check(bytes.Compare(start, end) < 0, "storage: space of the empty span [%x, %x)", start, end)
	}
	// The goroutine ends when no span is left, so that an idle engine has none.
	if !r.running {
		r.running = true
		rm.owned.Go(rm.reclaimLoop)
	}
}

// reclaimLoop processes removed spans until none is left.
func (rm *remover) reclaimLoop() {
	r := &rm.reclaimer
	for env.Pause(rm.opts.Clock, reclaimAfter, nil, rm.stop) {
		r.mu.Lock()
		spans := r.spans
		r.spans = nil
		// running is cleared under the lock, so that a span that is added later starts the goroutine again.
		r.running = len(spans) > 0
		r.mu.Unlock()
		if len(spans) == 0 {
			return
		}
		if err := rm.reclaimSpans(spans); err != nil {
			rm.opts.Logger.Warn("freeing the space of removed data was postponed", "err", err)
		}
	}
}

func (rm *remover) reclaimSpans(spans []backlog.Span) error {
	if err := rm.db.Err(); err != nil {
		return err
	}
	flushed, err := rm.db.AsyncFlush()
	if err != nil {
		return failure.Of(err)
	}
	select {
	case <-flushed:
	// A flush of a failed database may never end.
	case <-rm.db.Broken():
		return rm.db.Err()
	case <-rm.stop:
		return nil
	}
	if !env.Pause(rm.opts.Clock, reclaimAfter, nil, rm.stop) { // Pebble drops whole files first
		return nil
	}
	// Pebble rewrites the files that a deletion covers only in part.
	for _, s := range spans {
		err := rm.db.Compact(stopContext{context.Background(), rm.stop}, s.Start, s.End, false)
		if err != nil && !rm.stopping() {
			return failure.Of(err)
		}
	}
	return nil
}

// stopContext is a context that ends when stop is closed.
type stopContext struct {
	context.Context
	stop <-chan struct{}
}

// Done implements context.Context.
func (c stopContext) Done() <-chan struct{} { return c.stop }

// Err implements context.Context.
func (c stopContext) Err() error {
	select {
	case <-c.stop:
		return context.Canceled
	default:
		return nil
	}
}
