package auth

import (
	"context"
	"fmt"
)

// Principal identifies the client on whose behalf a request runs. The zero value is the anonymous client. It is
// comparable.
type Principal struct {
	Name string // name of the role that the client logged in as; empty means anonymous
}

// String returns the name of the role, or "anonymous".
func (p Principal) String() string {
	if p.Name == "" {
		return "anonymous"
	}
	return p.Name
}

// Requirement is a permission that a request needs on a resource. It is comparable.
type Requirement struct {
	Permission Permission
	Resource   Resource
}

// String returns the requirement in the form of GRANT: "SELECT on <table ks.t>".
func (q Requirement) String() string { return q.Permission.String() + " on " + q.Resource.String() }

// Authorizer authorizes requests. Implementations must be safe for concurrent use, must not block for long, and must
// not allocate when they allow a request: they are called for each requirement of each execution.
type Authorizer interface {
	// Authorize returns nil if p has the permission on the resource or on one of its parents, and otherwise *Denied.
	// Any other error means that the permission could not be checked; the request then fails, too.
	Authorize(ctx context.Context, p Principal, need Requirement) error
}

// AllowAll is an Authorizer that allows everything. It is the authorizer AllowAllAuthorizer.
type AllowAll struct{}

// Authorize implements Authorizer.
func (AllowAll) Authorize(context.Context, Principal, Requirement) error { return nil }

// Denied is the error of a request that lacks a permission. It names one requirement, the first that is not met.
type Denied struct {
	Principal   Principal
	Requirement Requirement
}

// Error returns Cassandra's message.
func (d *Denied) Error() string {
	return fmt.Sprintf("User %s has no %s permission on %s or any of its parents", d.Principal,
		d.Requirement.Permission,
		d.Requirement.Resource)
}
