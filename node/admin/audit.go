package admin

import (
	"context"
	"log/slog"

	"cqld/audit"
	"cqld/node/control"
)

// Audit enables and disables the audit log. It changes the running node only; the configuration is applied again at
// the next start.
type Audit struct {
	log *audit.Log
	// The settings of the configuration are the base of every change.
	settings func() audit.Settings // of the configuration
	logger   *slog.Logger
}

// Get returns the settings of the audit log. They are the settings in use, which may differ from the configuration.
func (l *Audit) Get(context.Context, control.None, control.Report) (audit.Settings, error) {
	return l.log.Settings(), nil
}

// Set enables or disables the audit log. As in nodetool, options that are not given have the values of the
// configuration. The result has the settings in use. Invalid settings leave the log as it was.
func (l *Audit) Set(_ context.Context, a control.AuditArgs, _ control.Report) (audit.Settings, error) {
	// Disabling is itself an entry of the log, because it is what a reader must know.
	if !a.Enable {
		l.log.Disable(&audit.Entry{Protocol: "control", Type: audit.Control, Operation: control.SetAuditLog.Name +
			` {"enable":false}`})
		return l.log.Settings(), nil
	}
	// The configuration is the base, not the settings in use: nodetool behaves in the same way.
	s := l.settings()
	if a.Logger != nil {
		name, note, err := audit.ParseLogger(*a.Logger)
		if err != nil {
			return s, &control.Error{Code: control.Invalid, Message: err.Error()}
		}
		// A logger may be accepted with a note that it does something else here.
		if note != "" {
			l.logger.Warn("configuration", "problem", note)
		}
		s.Logger = name
	}
	// Each list replaces the one of the configuration, also by an empty list.
	for _, list := range []struct {
		to    *[]string
		given *[]string
	}{{&s.IncludedKeyspaces, a.IncludedKeyspaces}, {&s.ExcludedKeyspaces, a.ExcludedKeyspaces},
		{&s.IncludedCategories, a.IncludedCategories},
		{&s.ExcludedCategories, a.ExcludedCategories}, {&s.IncludedUsers, a.IncludedUsers},
		{&s.ExcludedUsers, a.ExcludedUsers},
		{&s.IncludedRoles, a.IncludedRoles}, {&s.ExcludedRoles, a.ExcludedRoles}} {
		setIf(list.to, list.given)
	}
	// Only the options of the command are changed.
	setIf(&s.RollCycle, a.RollCycle)
	setIf(&s.Block, a.Block)
	setIf(&s.MaxQueueWeight, a.MaxQueueWeight)
	setIf(&s.MaxLogSize, a.MaxLogSize)
	if err := l.log.Enable(s); err != nil {
		return s, &control.Error{Code: control.Invalid, Message: err.Error()}
	}
	return l.log.Settings(), nil
}

// setIf sets a setting that is given.
func setIf[T any](to, given *T) {
	if given != nil {
		*to = *given
	}
}
