package raftlog

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"go.etcd.io/raft/v3"

	"cqld/internal/invariant"
)

// NewRaftLogger returns a logger that passes Raft's log messages to log. Informational messages have level debug.
func NewRaftLogger(log *slog.Logger) raft.Logger { return raftLogger{log} }

// raftLogger passes Raft's log messages to slog. Informational messages have level debug.
type raftLogger struct{ log *slog.Logger }

func (l raftLogger) Debug(v ...any)              { l.debug(fmt.Sprint(v...)) }
func (l raftLogger) Debugf(f string, v ...any)   { l.debug(fmt.Sprintf(f, v...)) }
func (l raftLogger) Info(v ...any)               { l.debug(fmt.Sprint(v...)) }
func (l raftLogger) Infof(f string, v ...any)    { l.debug(fmt.Sprintf(f, v...)) }
func (l raftLogger) Warning(v ...any)            { l.warn(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(f string, v ...any) { l.warn(fmt.Sprintf(f, v...)) }
func (l raftLogger) Error(v ...any)              { l.error(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(f string, v ...any)   { l.error(fmt.Sprintf(f, v...)) }

// Raft relies on these four functions not returning, because its state is inconsistent then.
func (l raftLogger) Fatal(v ...any)            { invariant.Fail("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(f string, v ...any) { invariant.Fail("raft: " + fmt.Sprintf(f, v...)) }
func (l raftLogger) Panic(v ...any)            { invariant.Fail("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Panicf(f string, v ...any) { invariant.Fail("raft: " + fmt.Sprintf(f, v...)) }

// Raft formats values into its messages. Here the message is an attribute, so log entries with the same text can be
// grouped.

func (l raftLogger) debug(text string) { l.log.Debug("metadata log: message of Raft", "text", text) }
func (l raftLogger) warn(text string)  { l.log.Warn("metadata log: warning of Raft", "text", text) }
func (l raftLogger) error(text string) { l.log.Error("metadata log: error of Raft", "err", text) }

// pebbleLogger passes the log store's messages to slog. A fatal message stops the node.
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

// Pebble calls Fatalf for failures after which it cannot continue. Unlike Pebble's default logger, it does not exit;
// fatal decides what happens.
func (l pebbleLogger) Fatalf(f string, v ...any) { l.stop(fmt.Errorf(f, v...)) }

// stop marks the log as failed.
func (l pebbleLogger) stop(err error) {
	err = fmt.Errorf("raftlog: %w", err)
	// Set before fatal, which may take a while: a concurrent Save must not succeed.
	l.failed.CompareAndSwap(nil, &err)
	l.fatal(err)
}
