package storage

import (
	"context"
	"sync"

	"cqld/storage/backlog"
	"cqld/storage/failure"
)

// reclaimer frees the space of removed data. A removal is a range deletion in the memtable. Pebble drops the covered
// files when the deletion is itself in a file, which otherwise happens with later writes, but a full disk accepts
// none. Pebble checks once, and skips files that a compaction uses, so reclaimer compacts the remaining ones.
type reclaimer struct {
	mu      sync.Mutex
	spans   []backlog.Span // removed spans that are not processed yet
	running bool
}

// reclaim frees the space of a removed span, soon and in the background.
func (e *Engine) reclaim(start, end []byte) {
	if e.opts.Inline {
		return
	}
	r := &e.reclaimer
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spans) < reclaimSpansMax { // beyond the bound, the span waits for Pebble's own compactions
		r.spans = append(r.spans, backlog.Span{Start: start, End: end})
	}
	if !r.running {
		r.running = true
		e.owned.Go(e.reclaimLoop)
	}
}

// reclaimLoop processes removed spans until none is left.
func (e *Engine) reclaimLoop() {
	r := &e.reclaimer
	for e.pause(reclaimAfter) {
		r.mu.Lock()
		spans := r.spans
		r.spans = nil
		r.running = len(spans) > 0
		r.mu.Unlock()
		if len(spans) == 0 {
			return
		}
		if err := e.reclaimSpans(spans); err != nil {
			e.opts.Logger.Warn("storage: freeing the space of removed data was postponed", "error", err)
		}
	}
}

func (e *Engine) reclaimSpans(spans []backlog.Span) error {
	if err := e.db.Err(); err != nil {
		return err
	}
	flushed, err := e.db.AsyncFlush()
	if err != nil {
		return failure.Of(err)
	}
	select {
	case <-flushed:
	case <-e.db.Broken():
		return e.db.Err()
	case <-e.stop:
		return nil
	}
	if !e.pause(reclaimAfter) { // Pebble drops whole files first
		return nil
	}
	for _, s := range spans {
		err := e.db.Compact(stopContext{context.Background(), e.stop}, s.Start, s.End, false)
		if err != nil && !e.stopping() {
			return failure.Of(err)
		}
	}
	return nil
}

// stopping reports whether the engine is being closed.
func (e *Engine) stopping() bool {
	select {
	case <-e.stop:
		return true
	default:
		return false
	}
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
