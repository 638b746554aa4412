package roles

import (
	"cqld/auth"
	"cqld/cql"
	"cqld/query/invalid"
)

// addIdentity needs CREATE on all roles, as in Cassandra, and AUTHORIZE on the role: otherwise a role that may create
// roles could log in as any other (CVE-2026-27314). Only superusers add identities of superusers.
func (e *execution) addIdentity(stmt *cql.AddIdentity) error {
	if err := e.permit(auth.Create, auth.AllRoles()); err != nil {
		return err
	}
	if e.directory.IsSuperuser(stmt.Role) && !e.superuser() {
		return invalid.Unauthorizedf("Only superusers can bind identities to a role with superuser status")
	}
	// Skip the permission for a role that does not exist: auth.AddIdentity rejects it with Cassandra's message.
	if _, exists := e.directory.Role(stmt.Role); exists {
		if err := e.permit(auth.Authorize, auth.RoleResource(stmt.Role)); err != nil {
			return err
		}
	}
	if err := e.loggedIn(); err != nil {
		return err
	}
	// The parser accepts an empty name between quotes.
	if stmt.Role == "" {
		return errEmptyKey()
	}
	return e.propose(&auth.AddIdentity{Identity: stmt.Identity, Role: stmt.Role, IfNotExists: stmt.IfNotExists})
}

// dropIdentity needs DROP on the role of the identity, or on all roles if there is none.
func (e *execution) dropIdentity(stmt *cql.DropIdentity) error {
	// The statement names the identity only. The role that it logs in as determines who may drop it.
	on := auth.AllRoles()
	role, exists := e.directory.Identity(stmt.Identity)
	if exists {
		on = auth.RoleResource(role)
	}
	if err := e.permit(auth.Drop, on); err != nil {
		return err
	}
	// A caller with DROP on the role must not lock out a superuser that logs in with its certificate.
	if exists && e.directory.IsSuperuser(role) && !e.superuser() {
		return invalid.Unauthorizedf("Only superusers can remove identity bindings from a role with superuser status")
	}
	if err := e.loggedIn(); err != nil {
		return err
	}
	// auth.Apply returns the error for an identity that does not exist, unless IF EXISTS is given.
	return e.propose(&auth.DropIdentity{Identity: stmt.Identity, IfExists: stmt.IfExists})
}
