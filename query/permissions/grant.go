package permissions

import (
	"cqld/auth"
	"cqld/cql"
	"cqld/query/invalid"
)

// Granted returns the resource and the permissions of GRANT and REVOKE: the permissions in the list that apply to the
// resource or, for ALL, every permission that applies. keyspace is the keyspace of unqualified names. Errors are
// *invalid.Error, and *cql.SyntaxError if none of the permissions applies.
func Granted(keyspace string, list []cql.Permission, on *cql.Resource) (auth.Resource, auth.PermissionSet, error) {
	r, err := ResourceOf(keyspace, on)
	if err != nil {
		return r, 0, err
	}
	// Native functions belong to keyspace system. Every client may call them.
	if r.Keyspace == "system" && (r.Kind == auth.KindKeyspaceFunctions || r.Kind == auth.KindFunction) {
		return r, 0, &invalid.Error{Msg: "Altering permissions on builtin functions is not supported"}
	}
	// ALL means the permissions that apply to the resource. A list may also contain permissions that do not apply;
	// they are ignored.
	set := Set(list) & auth.NewPermissionSet(r.Permissions()...)
	if set == 0 {
		return r, 0, &cql.SyntaxError{Msg: "Resource type " + resourceClass(r) +
			" does not support any of the requested permissions"}
	}
	return r, set, nil
}

// resourceClass returns the name of Cassandra's class of a resource. Error messages contain it.
func resourceClass(r auth.Resource) string {
	//exhaustive:enforce
	switch r.Kind {
	case auth.KindAllKeyspaces, auth.KindKeyspace, auth.KindAllTables, auth.KindTable:
		return "DataResource"
	case auth.KindAllRoles, auth.KindRole:
		return "RoleResource"
	case auth.KindAllFunctions, auth.KindKeyspaceFunctions, auth.KindFunction:
		return "FunctionResource"
	case auth.KindAllMBeans, auth.KindMBean:
		return "JMXResource"
	}
	return "resource"
}

// Set returns the permissions of a list; an empty list means all. Permissions that do not apply to the resource are
// included: Granted removes them.
func Set(list []cql.Permission) auth.PermissionSet {
	if len(list) == 0 {
		return auth.NewPermissionSet(auth.Permissions()...)
	}
	var set auth.PermissionSet
	for _, p := range list {
		set |= auth.NewPermissionSet(permission(p))
	}
	return set
}

// ResourceOf returns the resource that a statement names. keyspace is the keyspace of unqualified names. Errors are
// *invalid.Error. It does not check that the resource exists.
func ResourceOf(keyspace string, r *cql.Resource) (auth.Resource, error) {
	c := requirer{keyspace: keyspace}
	// The keyspace of the session does not apply to functions here, unlike in calls and in DROP FUNCTION.
	if r.Kind == cql.ResourceFunction && r.Name.Keyspace == "" {
		return auth.Resource{}, &invalid.Error{Msg: "In this context function name must be explictly qualified by " +
			"a keyspace"}
	}
	return c.resource(r), c.err
}

// resource returns the resource that a statement names. It sets c.err if the name of a table has no keyspace. It
// returns the zero Resource for ResourceNone, the resource of LIST PERMISSIONS without ON.
func (c *requirer) resource(r *cql.Resource) auth.Resource {
	//exhaustive:enforce
	switch r.Kind {
	case cql.ResourceAllKeyspaces:
		return auth.AllKeyspaces()
	case cql.ResourceKeyspace:
		return auth.Keyspace(r.Name.Keyspace)
	case cql.ResourceAllTablesInKeyspace:
		return auth.AllTables(r.Name.Keyspace)
	case cql.ResourceTable:
		// Only table names default to the keyspace of the session.
		return auth.Table(c.in(r.Name), r.Name.Name)
	case cql.ResourceAllRoles:
		return auth.AllRoles()
	case cql.ResourceRole:
		return auth.RoleResource(r.Name.Name)
	case cql.ResourceAllFunctions:
		return auth.AllFunctions()
	case cql.ResourceAllFunctionsInKeyspace:
		return auth.KeyspaceFunctions(r.Name.Keyspace)
	case cql.ResourceFunction:
		// ResourceOf has rejected names without a keyspace.
		return auth.Function(r.Name.Keyspace, signature(r.Name.Name, r.Args))
	case cql.ResourceAllMBeans:
		return auth.AllMBeans()
	case cql.ResourceMBean, cql.ResourceMBeans:
		return auth.MBean(r.Name.Name)
	case cql.ResourceNone:
	}
	return auth.Resource{}
}

// permission returns the permission that a statement names. For PermissionInvalid it returns zero, which applies to
// no resource.
func permission(p cql.Permission) auth.Permission {
	//exhaustive:enforce
	switch p {
	case cql.PermissionCreate:
		return auth.Create
	case cql.PermissionAlter:
		return auth.Alter
	case cql.PermissionDrop:
		return auth.Drop
	case cql.PermissionSelect:
		return auth.Select
	case cql.PermissionModify:
		return auth.Modify
	case cql.PermissionAuthorize:
		return auth.Authorize
	case cql.PermissionDescribe:
		return auth.Describe
	case cql.PermissionExecute:
		return auth.Execute
	case cql.PermissionUnmask:
		return auth.Unmask
	case cql.PermissionSelectMasked:
		return auth.SelectMasked
	case cql.PermissionInvalid:
	}
	return 0
}
