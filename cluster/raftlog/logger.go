package raftlog

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"go.etcd.io/raft/v3"

	"cqld/internal/invariant"
)

// NewRaftLogger returns a logger that passes Raft's log messages to log, the informational ones at level debug.
func NewRaftLogger(log *slog.Logger) raft.Logger { return raftLogger{log} }

// raftLogger passes Raft's log messages to slog, the informational ones at level debug.
type raftLogger struct{ log *slog.Logger }

func (l raftLogger) Debug(v ...any)              { l.debug(fmt.Sprint(v...)) }
func (l raftLogger) Debugf(f string, v ...any)   { l.debug(fmt.Sprintf(f, v...)) }
func (l raftLogger) Info(v ...any)               { l.debug(fmt.Sprint(v...)) }
func (l raftLogger) Infof(f string, v ...any)    { l.debug(fmt.Sprintf(f, v...)) }
func (l raftLogger) Warning(v ...any)            { l.warn(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(f string, v ...any) { l.warn(fmt.Sprintf(f, v...)) }
func (l raftLogger) Error(v ...any)              { l.error(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(f string, v ...any)   { l.error(fmt.Sprintf(f, v...)) }

// Raft relies on it that none of these four returns: its state is inconsistent then.
func (l raftLogger) Fatal(v ...any)            { invariant.Fail("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(f string, v ...any) { invariant.Fail("raft: " + fmt.Sprintf(f, v...)) }
func (l raftLogger) Panic(v ...any)            { invariant.Fail("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Panicf(f string, v ...any) { invariant.Fail("raft: " + fmt.Sprintf(f, v...)) }

// Raft formats its messages with their values. They are attributes here, so that repeated messages are recognized.

func (l raftLogger) debug(text string) { l.log.Debug("metadata log: message of Raft", "text", text) }
func (l raftLogger) warn(text string)  { l.log.Warn("metadata log: warning of Raft", "text", text) }
func (l raftLogger) error(text string) { l.log.Error("metadata log: error of Raft", "err", text) }

// pebbleLogger passes the messages of the log store to slog. A fatal one stops the node.
type pebbleLogger struct {
	log    *slog.Logger
	fatal  func(error)
	failed *atomic.Pointer[error] // shared with Log
}

func (l pebbleLogger) Infof(f string, v ...any) {
	l.log.Debug("metadata log: message of Pebble", "text", fmt.Sprintf(f, v...))
}

func (l pebbleLogger) Errorf(f string, v ...any) {
	l.log.Error("metadata log: error of Pebble", "err", fmt.Sprintf(f, v...))
}

// Fatalf is called by Pebble for failures after which it cannot continue. Unlike in Pebble's default logger, the
// process does not end here: fatal decides.
func (l pebbleLogger) Fatalf(f string, v ...any) { l.stop(fmt.Errorf(f, v...)) }

// stop marks the log as failed.
func (l pebbleLogger) stop(err error) {
	err = fmt.Errorf("raftlog: %w", err)
	// Before fatal, which may take a while: no Save that runs meanwhile may succeed.
	l.failed.CompareAndSwap(nil, &err)
	l.fatal(err)
}
