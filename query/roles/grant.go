package roles

import (
	"errors"
	"fmt"

	"cqld/auth"
	"cqld/cql"
	"cqld/query/invalid"
	"cqld/query/permissions"
	"cqld/schema"
)

// changeGrant executes GRANT and REVOKE of permissions. The caller needs AUTHORIZE on the resource, and the permissions
// themselves: no role grants what it lacks.
func (e *execution) changeGrant(list []cql.Permission, on *cql.Resource, role string, grant bool) error {
	r, set, err := permissions.Granted(e.caller.Keyspace, list, on)
	if err != nil {
		return err
	}
	// Authorization comes before the checks of existence: a caller without AUTHORIZE must not learn whether the role or
	// the resource exists. The error is *auth.Denied, which names the permission that is missing, and not the general
	// text of permit.
	for _, p := range append([]auth.Permission{auth.Authorize}, set.List()...) {
		if err := e.caller.Authorize(auth.Requirement{Permission: p, Resource: r}); err != nil {
			return err
		}
	}
	if err := e.loggedIn(); err != nil {
		return err
	}
	// Without an authorizer Authorize permits everything, and validGrant refuses the statement after it.
	if err := e.validGrant(r, set, role, grant); err != nil {
		return err
	}
	// Only direct grants count here. A permission that the role has by a parent resource or another role can still be
	// granted, because the other grant may be revoked later.
	granted := e.directory.Granted(role, r)
	if grant {
		// These permissions are granted already; the others are added.
		e.warn(granted&set, "Role '%s' was already granted %s on %s", role, r)
		if err := e.propose(&auth.GrantPermissions{Role: role, Resource: r, Permissions: set}); err != nil {
			return err
		}
		return e.confirmGrant(r, set, role)
	}
	// These permissions cannot be revoked; the others are.
	e.warn(set&^granted, "Role '%s' was not granted %s on %s", role, r)
	return e.propose(&auth.RevokePermissions{Role: role, Resource: r, Permissions: set})
}

// confirmGrant refuses a grant on a resource that a concurrent statement dropped after validGrant and before the grant
// was applied, and revokes it: a later resource of the same name would have it. A resource that is dropped after the
// grant takes its grants with it, in the same command.
//
// auth.Apply does not check this, because nodes of builds that do not would then have other grants.
func (e *execution) confirmGrant(r auth.Resource, set auth.PermissionSet, role string) error {
	// The schema of this node contains what was applied before the grant.
	if e.exists(r) {
		return nil
	}
	err := e.o.Changer.ProposeRoles(e.ctx, &auth.RevokePermissions{Role: role, Resource: r, Permissions: set})
	var invalidChange *auth.Invalid
	// Without the role, there is no grant either.
	if err != nil && !errors.As(err, &invalidChange) {
		return err
	}
	return invalid.Errorf("Resource %s doesn't exist", r)
}

// warn adds a warning about permissions that the statement does not change: GRANT of granted ones, or REVOKE of others.
// The statement still succeeds. format receives the role, the permissions and the resource, in this order.
func (e *execution) warn(set auth.PermissionSet, format, role string, r auth.Resource) {
	if set != 0 {
		e.result.Warnings = append(e.result.Warnings, fmt.Sprintf(format, role, set, r))
	}
}

// validGrant refuses grants to a role, or on a resource, that does not exist, all grants without CassandraAuthorizer,
// and permissions on system keyspaces that could be used to take over the cluster. set contains only permissions that
// apply to r.
func (e *execution) validGrant(r auth.Resource, set auth.PermissionSet, role string, grant bool) error {
	if _, exists := e.directory.Role(role); !exists {
		return invalid.Errorf("Role %s doesn't exist", role)
	}
	if !e.exists(r) {
		return invalid.Errorf("Resource %s doesn't exist", r)
	}
	if !e.o.Config.Authorization {
		verb := "REVOKE"
		if grant {
			verb = "GRANT"
		}
		return invalid.Errorf("%s operation is not supported by AllowAllAuthorizer", verb)
	}
	// Virtual keyspaces are excluded: no statement can change their rows, so MODIFY on them is harmless.
	// CVE-2025-23015: a role that may write a system keyspace could become a superuser.
	if auth.IsSystemKeyspace(r.Keyspace) && !schema.IsVirtualSystem(r.Keyspace) &&
		set&^auth.NewPermissionSet(auth.Alter, auth.Select) != 0 {
		return invalid.Unauthorizedf("Granting permissions on system keyspaces is strictly limited, this operation " +
			"is not permitted")
	}
	return nil
}

// exists reports whether there is a resource. Control operations are not listed, so each name of one exists. All kinds
// that stand for all resources of a group exist, provided that their keyspace exists. The schema is the current one of
// this node.
func (e *execution) exists(r auth.Resource) bool {
	// All resources with a keyspace need it, whatever their kind is.
	var k *schema.Keyspace
	if r.Keyspace != "" {
		if k = e.o.Schema().Keyspace(r.Keyspace); k == nil {
			return false
		}
	}
	//exhaustive:enforce
	switch r.Kind {
	case auth.KindTable:
		return k.Table(r.Name) != nil
	case auth.KindRole:
		_, ok := e.directory.Role(r.Name)
		return ok
	case auth.KindFunction:
		return k.HasSignature(r.Name)
	// Nothing else can be missing for these kinds.
	case auth.KindAllKeyspaces, auth.KindKeyspace, auth.KindAllTables, auth.KindAllRoles, auth.KindAllFunctions,
		auth.KindKeyspaceFunctions,
		auth.KindAllMBeans, auth.KindMBean:
	}
	return true
}
