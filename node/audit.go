package node

import (
	"fmt"
	"net/netip"

	"cqld/audit"
	"cqld/azuretables"
	"cqld/azuretables/odata"
	"cqld/login"
	"cqld/node/control"
	"cqld/node/operation"
)

// openAudit creates the audit log, and enables it if the configuration says so.
func (n *Node) openAudit() error {
	s := n.opts.AuditSettings()
	n.audit = audit.New(audit.Options{Host: n.opts.Internode().String(), Now: n.clock.Now, Logger: n.log,
		Go: n.running.Go, RolesOf: n.rolesOf}, s)
	if !s.Enabled {
		return nil
	}
	if err := n.audit.Enable(s); err != nil {
		return fmt.Errorf("node: audit_logging_options: %w", err)
	}
	n.log.Info("the audit log is enabled", "directory", s.Dir)
	return nil
}

// auditLogin records an attempt to log in. With block: true, it blocks the connection while the queue is full.
func (n *Node) auditLogin(attempt login.Event) {
	e := audit.Entry{Protocol: "cql", Type: audit.LoginSuccess, User: attempt.Role, Source: attempt.Address,
		Operation: "LOGIN SUCCESSFUL"}
	if attempt.Kind != login.Success {
		e.Type, e.Operation, e.Error = audit.LoginError, "LOGIN FAILURE", attempt.Reason.String()
	}
	n.audit.Record(&e)
}

// answered implements azuretables.Options.Answered.
func (n *Node) tablesAnswered(a azuretables.Answer) {
	n.answered.Answered(a)
	if n.audit.Enabled() {
		n.auditTables(&a)
	}
}

// tablesUser returns the role as which a request of an account ran, or else the account.
func tablesUser(a *azuretables.Answer) string {
	if a.Role != "" {
		return a.Role
	}
	return a.Account
}

// auditTables records a request to the Tables server. The keyspace is the account, and the user its role.
func (n *Node) auditTables(a *azuretables.Answer) {
	e := audit.Entry{Protocol: "tables", Type: tablesAuditType(operation.Of(*a)), User: tablesUser(a), Source: a.Client,
		Keyspace: a.Account, Scope: a.Table}
	switch a.Code {
	case "":
	case odata.AuthenticationFailed, odata.InvalidAuthenticationInfo:
		e.Type = audit.LoginError
	case odata.AuthorizationFailure, odata.AuthorizationPermissionMismatch, odata.AuthorizationResourceTypeMismatch,
		odata.AuthorizationServiceMismatch:
		e.Type = audit.UnauthorizedAttempt
	default:
		e.Type = audit.RequestFailure
	}
	if !n.audit.Wants(e.Type, e.Keyspace, e.User) {
		return
	}
	e.Operation = a.Method + " " + a.URL()
	if a.Code != "" {
		e.Error = string(a.Code) + ": " + a.Error
	}
	n.audit.Record(&e)
}

// tablesAuditType returns the type of a CQL statement that does the same.
func tablesAuditType(o operation.Kind) audit.Type {
	switch o {
	case operation.Query, operation.Get, operation.Count:
		return audit.Select
	case operation.Insert, operation.Replace, operation.Merge:
		return audit.Update
	case operation.Delete, operation.DeleteMany:
		return audit.Delete
	case operation.Transaction:
		return audit.Batch
	case operation.CreateTable:
		return audit.CreateTable
	case operation.DeleteTable:
		return audit.DropTable
	case operation.ListTables:
		return audit.Describe
	case operation.Policies:
		return audit.Grant
	case operation.Other, operation.Service, operation.Kinds:
	}
	return audit.ServiceRequest
}

// auditControl records an operation of `cqld ctl`.
func (n *Node) auditControl(o control.Observation) {
	if !n.audit.Enabled() {
		return
	}
	e := audit.Entry{Protocol: "control", Type: audit.Control, Operation: o.String()}
	if client, err := netip.ParseAddrPort(o.Client); err == nil {
		e.Source = client
	}
	switch {
	case o.Refused() && o.Name == "":
		e.Type = audit.LoginError
	case o.Refused():
		e.Type = audit.UnauthorizedAttempt
	case o.Err != nil:
		e.Type = audit.RequestFailure
	}
	if o.Err != nil {
		e.Error = o.Err.Error()
	}
	n.audit.Record(&e)
}

// rolesOf returns the roles that a user has, for the options about roles.
func (n *Node) rolesOf(user string) []string {
	if n.cluster == nil { // nothing is served yet
		return nil
	}
	return n.cluster.Metadata().Roles.RolesOf(user)
}
