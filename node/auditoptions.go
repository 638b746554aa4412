package node

import (
	"context"

	"cqld/audit"
	"cqld/node/control"
)

// opAuditLog returns the settings of the audit log.
func (n *Node) opAuditLog(context.Context, control.None, control.Report) (audit.Settings, error) {
	return n.audit.Settings(), nil
}

// opSetAuditLog enables or disables the audit log. As in nodetool, options that are not given have the values of the
// configuration.
func (n *Node) opSetAuditLog(_ context.Context, a control.AuditArgs, _ control.Report) (audit.Settings, error) {
	if !a.Enable {
		n.audit.Disable(&audit.Entry{Protocol: "control", Type: audit.Control, Operation: control.SetAuditLog.Name +
			` {"enable":false}`})
		return n.audit.Settings(), nil
	}
	s := n.opts.AuditSettings()
	if a.Logger != nil {
		name, note, err := audit.ParseLogger(*a.Logger)
		if err != nil {
			return s, &control.Error{Code: control.Invalid, Message: err.Error()}
		}
		if note != "" {
			n.log.Warn("configuration", "problem", note)
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
	if err := n.audit.Enable(s); err != nil {
		return s, &control.Error{Code: control.Invalid, Message: err.Error()}
	}
	return n.audit.Settings(), nil
}

// setIf sets a setting that is given.
func setIf[T any](to, given *T) {
	if given != nil {
		*to = *given
	}
}
