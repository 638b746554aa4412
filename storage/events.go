package storage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleLog is Pebble's logger. Pebble's default logger exits the process in Fatalf; here the node decides how it
// stops, and nothing is acknowledged until then (Engine.failed).
type pebbleLog struct{ e *Engine }

func (l pebbleLog) Infof(format string, args ...any) {
	l.e.opts.Logger.Debug("storage: message of Pebble", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.e.opts.Logger.Error("storage: error of Pebble", "err", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Fatalf does not return to Pebble's background work, which would continue with a state that differs from the disk:
// it blocks the goroutine, and with it Pebble's locks, permanently. It returns to a commit and to Open, which check
// Engine.failed.
func (l pebbleLog) Fatalf(format string, args ...any) {
	if !l.e.opened.Load() || strings.HasPrefix(format, "pebble: fatal commit error") {
		l.e.fail(fmt.Errorf(format, args...))
		return
	}
	l.e.wedged.Store(true)
	l.e.fail(fmt.Errorf(format, args...))
	select {}
}

// fail stops the engine permanently. The first call notifies the node.
func (e *Engine) fail(err error) {
	err = fmt.Errorf("%w: %w", ErrStopped, err)
	if !e.failed.CompareAndSwap(nil, &err) {
		return
	}
	close(e.broken)
	e.opts.Logger.Error("storage: failed; the node must stop", "error", err)
	e.opts.OnFatal(err)
}

// commitPanic is deferred in every commit. Pebble panics with its locks held when it cannot continue. The engine has
// then failed and is never used again, so commitPanic only has to recover the panic.
func (e *Engine) commitPanic(err *error) {
	if p := recover(); p != nil {
		e.wedged.Store(true)
		e.fail(fmt.Errorf("commit: %v", p))
		*err = e.failedErr()
	}
}

// failedErr returns the error that stopped the engine, or nil.
func (e *Engine) failedErr() error {
	if p := e.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// listener returns the handlers of Pebble's events.
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
			// Failed work is retried immediately and repeatedly. %v of the error contains pages of stack.
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

// corrupted records a corrupt file, once, and notifies the node.
func (e *Engine) corrupted(info CorruptionInfo) {
	e.quarantine.Lock()
	known := slices.ContainsFunc(e.quarantine.found, func(c CorruptionInfo) bool { return c.Path == info.Path }) ||
		slices.ContainsFunc(e.quarantine.removed, info.same) // work that began before may still report it
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

// same reports whether both are of one file and the same part of it.
func (c CorruptionInfo) same(o CorruptionInfo) bool {
	return c.Path == o.Path && bytes.Equal(c.Start, o.Start) && bytes.Equal(c.End, o.End)
}

// Corruptions returns the corrupt files found since the engine was opened.
func (e *Engine) Corruptions() []CorruptionInfo {
	e.quarantine.Lock()
	defer e.quarantine.Unlock()
	return slices.Clone(e.quarantine.found)
}
