package storage

import (
	"context"
	"sync"
)

// reclaimer frees the space of what was removed. A removal is a deletion of a range in the memtable. Pebble drops the
// files that it covers when it is in a file itself, which else comes with later writes, of which a full disk takes none.
// It looks once, and passes over files that a compaction uses, so what it left is compacted.
type reclaimer struct {
	mu      sync.Mutex
	spans   []keySpan // removed, and not seen to yet
	running bool
}

// keySpan is the keys from start up to end.
type keySpan struct{ start, end []byte }

// reclaim frees the space of a span that was removed, soon and in the background.
func (e *Engine) reclaim(start, end []byte) {
	if e.opts.Inline {
		return
	}
	r := &e.reclaimer
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spans) < reclaimSpansMax { // beyond it, what Pebble leaves waits for its compactions
		r.spans = append(r.spans, keySpan{start, end})
	}
	if !r.running {
		r.running = true
		e.owned.Go(e.reclaimLoop)
	}
}

// reclaimLoop sees to what was removed until nothing is left.
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

func (e *Engine) reclaimSpans(spans []keySpan) error {
	if err := e.failedErr(); err != nil {
		return err
	}
	flushed, err := e.db.AsyncFlush()
	if err != nil {
		return e.failure(err)
	}
	select {
	case <-flushed:
	case <-e.broken:
		return e.failedErr()
	case <-e.stop:
		return nil
	}
	if !e.pause(reclaimAfter) { // Pebble drops whole files first
		return nil
	}
	for _, s := range spans {
		err := e.db.Compact(stopContext{context.Background(), e.stop}, s.start, s.end, false)
		if err != nil && !e.stopping() {
			return e.failure(err)
		}
	}
	return nil
}

// stopping says whether the engine is being closed.
func (e *Engine) stopping() bool {
	select {
	case <-e.stop:
		return true
	default:
		return false
	}
}

// stopContext ends when stop is closed.
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
