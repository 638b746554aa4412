package recorder

import (
	"net/netip"

	"cqld/audit"
	"cqld/azuretables"
	"cqld/azuretables/odata"
	"cqld/login"
	"cqld/node/control"
	"cqld/node/operation"
)

// Recorder records in the audit log what clients and operators do. The processor of CQL statements records those
// itself. It is safe for concurrent use. Categories, keyspaces and users that the log excludes are left out by package
// audit. A nil log records nothing, because methods of a nil audit.Log do nothing.
type Recorder struct{ log *audit.Log }

// New returns a recorder that writes to log.
func New(log *audit.Log) *Recorder { return &Recorder{log} }

// Login records an attempt to log in. With block: true, it blocks the connection while the queue is full. Only failed
// attempts have a reason.
func (r *Recorder) Login(attempt login.Event) {
	e := audit.Entry{Protocol: "cql", Type: audit.LoginSuccess, User: attempt.Role, Source: attempt.Address,
		Operation: "LOGIN SUCCESSFUL"}
	if attempt.Kind != login.Success {
		e.Type, e.Operation, e.Error = audit.LoginError, "LOGIN FAILURE", attempt.Reason.String()
	}
	r.log.Record(&e)
}

// userOf returns the role as which a request of an account ran, or else the account. A signature names the account
// only; its role is known after the lookup, so requests that fail before have the account.
func userOf(a *azuretables.Answer) string {
	if a.Role != "" {
		return a.Role
	}
	return a.Account
}

// Tables records a request to the Tables server. The keyspace is the account, and the user its role. It is called for
// each request, so a request that the log does not want costs no formatting.
func (r *Recorder) Tables(a *azuretables.Answer) {
	if !r.log.Enabled() {
		return
	}
	e := audit.Entry{Protocol: "tables", Type: typeOf(operation.Of(*a)), User: userOf(a), Source: a.Client,
		Keyspace: a.Account, Scope: a.Table}
	// An empty code is a success, whose type is the operation's.
	switch a.Code {
	case "":
	case odata.AuthenticationFailed, odata.InvalidAuthenticationInfo:
		e.Type = audit.LoginError
	// These codes mean that the signature was valid and the role or the SAS lacks a permission.
	case odata.AuthorizationFailure, odata.AuthorizationPermissionMismatch, odata.AuthorizationResourceTypeMismatch,
		odata.AuthorizationServiceMismatch:
		e.Type = audit.UnauthorizedAttempt
	default:
		e.Type = audit.RequestFailure
	}
	// The URL and the error are formatted afterwards.
	if !r.log.Wants(e.Type, e.Keyspace, e.User) {
		return
	}
	// Without a method, the client has sent malformed HTTP.
	if a.Method != "" {
		e.Operation = a.Method + " " + a.URL()
	}
	if a.Code != "" {
		e.Error = string(a.Code) + ": " + a.Error
	}
	r.log.Record(&e)
}

// typeOf returns the type of a CQL statement that does the same. Audit categories of CQL therefore apply to both
// protocols. Operations without an equivalent are service requests.
func typeOf(o operation.Kind) audit.Type {
	switch o {
	case operation.Query, operation.Get, operation.Count:
		return audit.Select
	case operation.Insert, operation.Replace, operation.Merge:
		return audit.Update
	case operation.Delete, operation.DeleteMany:
		return audit.Delete
	// A transaction changes one partition atomically, as a batch of CQL does.
	case operation.Transaction:
		return audit.Batch
	case operation.CreateTable:
		return audit.CreateTable
	case operation.DeleteTable:
		return audit.DropTable
	case operation.ListTables:
		return audit.Describe
	// Access policies determine what a SAS permits, which is the closest to GRANT.
	case operation.Policies:
		return audit.Grant
	case operation.Other, operation.Service, operation.Kinds:
	}
	return audit.ServiceRequest
}

// Control records an operation of `cqld ctl`. The entry has no user, because operators are anonymous. Secrets in the
// arguments are redacted.
func (r *Recorder) Control(o control.Observation) {
	if !r.log.Enabled() {
		return
	}
	e := audit.Entry{Protocol: "control", Type: audit.Control, Operation: o.String()}
	// A client of the socket has no address.
	if client, err := netip.ParseAddrPort(o.Client); err == nil {
		e.Source = client
	}
	switch {
	// A refusal without a name happened before the operation was known: the token was missing or wrong.
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
	r.log.Record(&e)
}
