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

// changeGrant executes GRANT and REVOKE of permissions. The caller needs AUTHORIZE on the resource, and the
// permissions themselves, because a role can only grant permissions that it has.
func (e *execution) changeGrant(list []cql.Permission, on *cql.Resource, role string, grant bool) error {
	r, set, err := permissions.Granted(e.caller.Keyspace, list, on)
	if err != nil {
		return err
	}
	// Authorization comes before the checks of existence: a caller without AUTHORIZE must not learn whether the role
	// or the resource exists. The error is *auth.Denied, which names the missing permission, unlike the error of
	// permit.
	for _, p := range append([]auth.Permission{auth.Authorize}, set.List()...) {
		if err := e.caller.Authorize(auth.Requirement{Permission: p, Resource: r}); err != nil {
			return err
		}
	}
	if err := e.loggedIn(); err != nil {
		return err
	}
	// Without an authorizer, Authorize permits everything, and validGrant rejects the statement.
	if err := e.validGrant(r, set, role, grant); err != nil {
		return err
	}
	// Only direct grants count here. A permission that the role has by a parent resource or another role can still be
	// granted, because the other grant may be revoked later.
	granted := e.directory.Granted(role, r)
	if grant {
		// Warn about permissions that are already granted; the others are added.
		e.warn(granted&set, "Role '%s' was already granted %s on %s", role, r)
		if err := e.propose(&auth.GrantPermissions{Role: role, Resource: r, Permissions: set}); err != nil {
			return err
		}
		return e.confirmGrant(r, set, role)
	}
	// Warn about permissions that were not granted; the others are revoked.
	e.warn(set&^granted, "Role '%s' was not granted %s on %s", role, r)
	return e.propose(&auth.RevokePermissions{Role: role, Resource: r, Permissions: set})
}

// confirmGrant revokes a grant and returns an error if a concurrent statement dropped the resource between validGrant
// and the application of the grant. Otherwise the grant would apply to a later resource with the same name. Dropping
// a resource after the grant removes its grants in the same command of the metadata log.
//
// auth.Apply cannot check this, because nodes with older builds do not, and the directories would diverge.
func (e *execution) confirmGrant(r auth.Resource, set auth.PermissionSet, role string) error {
	// This node has applied all schema changes before the grant.
	if e.exists(r) {
		return nil
	}
	err := e.o.Changer.ProposeRoles(e.ctx, &auth.RevokePermissions{Role: role, Resource: r, Permissions: set})
	var invalidChange *auth.Invalid
	// If the role was dropped, the grant is gone, too.
	if err != nil && !errors.As(err, &invalidChange) {
		return err
	}
	return invalid.Errorf("Resource %s doesn't exist", r)
}

// warn adds a warning about permissions that the statement does not change: GRANT of permissions that are already
// granted, or REVOKE of permissions that are not. The statement still succeeds. format receives the role, the
// permissions and the resource, in this order.
func (e *execution) warn(set auth.PermissionSet, format, role string, r auth.Resource) {
	if set != 0 {
		e.result.Warnings = append(e.result.Warnings, fmt.Sprintf(format, role, set, r))
	}
}

// validGrant rejects grants to a role, or on a resource, that does not exist, all grants without CassandraAuthorizer,
// and permissions on system keyspaces with which a role could take over the cluster. set contains only permissions
// that apply to r.
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

// exists reports whether a resource exists in the current schema and directory of this node. Control operations are
// not listed, so any name exists. A resource that stands for all resources of a kind exists if its keyspace does.
func (e *execution) exists(r auth.Resource) bool {
	// A resource in a keyspace exists only if the keyspace does.
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
	// These kinds only depend on the keyspace.
	case auth.KindAllKeyspaces, auth.KindKeyspace, auth.KindAllTables, auth.KindAllRoles, auth.KindAllFunctions,
		auth.KindKeyspaceFunctions,
		auth.KindAllMBeans, auth.KindMBean:
	}
	return true
}
