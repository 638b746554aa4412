package admin

import (
	"context"
	"log/slog"

	"cqld/audit"
	"cqld/node/control"
)

// Audit enables and disables the audit log.
type Audit struct {
	log      *audit.Log
	settings func() audit.Settings // of the configuration
	logger   *slog.Logger
}

// Get returns the settings of the audit log.
func (l *Audit) Get(context.Context, control.None, control.Report) (audit.Settings, error) {
	return l.log.Settings(), nil
}

// Set enables or disables the audit log. As in nodetool, options that are not given have the values of the
// configuration.
func (l *Audit) Set(_ context.Context, a control.AuditArgs, _ control.Report) (audit.Settings, error) {
	if !a.Enable {
		l.log.Disable(&audit.Entry{Protocol: "control", Type: audit.Control, Operation: control.SetAuditLog.Name +
			` {"enable":false}`})
		return l.log.Settings(), nil
	}
	s := l.settings()
	if a.Logger != nil {
		name, note, err := audit.ParseLogger(*a.Logger)
		if err != nil {
			return s, &control.Error{Code: control.Invalid, Message: err.Error()}
		}
		if note != "" {
			l.logger.Warn("configuration", "problem", note)
		}
		s.Logger = name
	}
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
