package storage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleLog is Pebble's logger. Pebble's own ends the process at Fatalf; here the node decides how it
// stops, and until then nothing is acknowledged (Engine.failed).
type pebbleLog struct{ e *Engine }

func (l pebbleLog) Infof(format string, args ...any) {
	l.e.opts.Logger.Debug("pebble: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.e.opts.Logger.Error("pebble: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Fatalf does not return to Pebble's background work, which would go on with state that is no longer
// that of the disk: it holds the goroutine, and Pebble's locks, for ever. To a commit it returns, as
// to Open: they look at Engine.failed.
func (l pebbleLog) Fatalf(format string, args ...any) {
	if !l.e.opened.Load() || strings.HasPrefix(format, "pebble: fatal commit error") {
		l.e.fail(fmt.Errorf(format, args...))
		return
	}
	l.e.wedged.Store(true)
	l.e.fail(fmt.Errorf(format, args...))
	select {}
}

// fail stops the engine for good: the first call tells the node.
func (e *Engine) fail(err error) {
	err = fmt.Errorf("%w: %w", ErrStopped, err)
	if !e.failed.CompareAndSwap(nil, &err) {
		return
	}
	close(e.broken)
	e.opts.Logger.Error("storage: failed; the node must stop", "error", err)
	e.opts.OnFatal(err)
}

// commitPanic is deferred around every commit. Pebble panics where it does not know how to go on, with its
// locks held. The engine has then failed and is never used again, so it is enough that the panic goes
// no further.
func (e *Engine) commitPanic(err *error) {
	if p := recover(); p != nil {
		e.wedged.Store(true)
		e.fail(fmt.Errorf("commit: %v", p))
		*err = e.failedErr()
	}
}

// failedErr is why the engine stopped, or nil.
func (e *Engine) failedErr() error {
	if p := e.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// listener is what Pebble tells us of.
func (e *Engine) listener() *pebble.EventListener {
	l := &pebble.EventListener{
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			e.corrupted(CorruptionInfo{
				Path:  info.Path,
				Start: slices.Clone(info.Bounds.Start),
				End:   slices.Clone(info.Bounds.End.Key),
				Err:   info.Details,
			})
		},
		BackgroundError: func(err error) {
			if errors.Is(err, pebble.ErrClosed) {
				return
			}
			e.flushFailures.Add(1)
			// What failed is tried again at once, and again. %v of the error has pages of stack.
			text := err.Error()
			if last := e.background.Swap(&text); last == nil || *last != text {
				e.opts.Logger.Error("storage: background task failed; it will be retried", "error", text)
			}
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			e.stalls.Add(1)
			e.opts.Logger.Warn("storage: writes stalled", "reason", info.Reason)
		},
	}
	l.EnsureDefaults(pebbleLog{e})
	return l
}

// corrupted puts the file on the list of what must be repaired, once, and tells the node.
func (e *Engine) corrupted(info CorruptionInfo) {
	e.quarantine.Lock()
	known := slices.ContainsFunc(e.quarantine.found, func(c CorruptionInfo) bool { return c.Path == info.Path }) ||
		slices.ContainsFunc(e.quarantine.removed, info.same) // work that began before may still tell of it
	if !known && len(e.quarantine.found) < quarantineMax {
		e.quarantine.found = append(e.quarantine.found, info)
	}
	e.quarantine.Unlock()
	if known {
		return
	}
	e.opts.Logger.Error("storage: corrupt data", "file", info.Path, "error", info.Err.Error())
	e.opts.OnCorruption(info)
}

// same says whether both are of one file, and of the same part of it.
func (c CorruptionInfo) same(o CorruptionInfo) bool {
	return c.Path == o.Path && bytes.Equal(c.Start, o.Start) && bytes.Equal(c.End, o.End)
}

// Corruptions are the corrupt files found since the engine was opened.
func (e *Engine) Corruptions() []CorruptionInfo {
	e.quarantine.Lock()
	defer e.quarantine.Unlock()
	return slices.Clone(e.quarantine.found)
}
