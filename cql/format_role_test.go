package cql

func appendRoleStatement(dst []byte, s Statement) []byte {
	switch s := s.(type) {
	case *CreateRole:
		dst = appendRoleKind(append(dst, "CREATE "...), s.User)
		dst = appendRole(appendIf(dst, s.IfNotExists, "IF NOT EXISTS "), s.Role, s.User)
		return appendRoleOptions(dst, &s.Options, s.User)
	case *AlterRole:
		dst = appendRoleKind(append(dst, "ALTER "...), s.User)
		dst = appendRole(appendIf(dst, s.IfExists, "IF EXISTS "), s.Role, s.User)
		return appendRoleOptions(dst, &s.Options, s.User)
	case *DropRole:
		dst = appendRoleKind(append(dst, "DROP "...), s.User)
		return appendRole(appendIf(dst, s.IfExists, "IF EXISTS "), s.Role, s.User)
	case *ListRoles:
		return appendListTail(append(dst, "LIST ROLES"...), s.Of, s.NoRecursive)
	case *ListUsers:
		if s.Superusers {
			return append(dst, "LIST SUPERUSERS"...)
		}
		return append(dst, "LIST USERS"...)
	case *GrantRole:
		dst = appendRoleName(append(dst, "GRANT "...), s.Role)
		return appendRoleName(append(dst, " TO "...), s.Grantee)
	case *RevokeRole:
		dst = appendRoleName(append(dst, "REVOKE "...), s.Role)
		return appendRoleName(append(dst, " FROM "...), s.Grantee)
	case *GrantPermissions:
		dst = appendPermissions(append(dst, "GRANT "...), s.Permissions)
		dst = appendResource(append(dst, " ON "...), &s.Resource)
		return appendRoleName(append(dst, " TO "...), s.Grantee)
	case *RevokePermissions:
		dst = appendPermissions(append(dst, "REVOKE "...), s.Permissions)
		dst = appendResource(append(dst, " ON "...), &s.Resource)
		return appendRoleName(append(dst, " FROM "...), s.Grantee)
	case *ListPermissions:
		dst = appendPermissions(append(dst, "LIST "...), s.Permissions)
		if s.Resource.Kind != ResourceNone {
			dst = appendResource(append(dst, " ON "...), &s.Resource)
		}
		return appendListTail(dst, s.Of, s.NoRecursive)
	case *AddIdentity:
		dst = appendIf(append(dst, "ADD IDENTITY "...), s.IfNotExists, "IF NOT EXISTS ")
		dst = append(appendString(dst, s.Identity), " TO ROLE "...)
		return appendString(dst, s.Role)
	case *DropIdentity:
		return appendString(appendIf(append(dst, "DROP IDENTITY "...), s.IfExists, "IF EXISTS "), s.Identity)
	}
	return append(dst, '?')
}

func appendRoleKind(dst []byte, user bool) []byte {
	if user {
		return append(dst, "USER "...)
	}
	return append(dst, "ROLE "...)
}

// appendRole appends the name of a role. A user's name is a string: without quotes it would keep its case, and with
// double quotes it is refused.
func appendRole(dst []byte, name string, user bool) []byte {
	if user {
		return appendString(dst, name)
	}
	return appendRoleName(dst, name)
}

// appendRoleName appends the name of a role. An empty name is a string, because no identifier is empty.
func appendRoleName(dst []byte, name string) []byte {
	if name == "" {
		return appendString(dst, name)
	}
	return appendIdentifier(dst, name)
}

func appendListTail(dst []byte, of string, noRecursive bool) []byte {
	if of != "" {
		dst = appendRoleName(append(dst, " OF "...), of)
	}
	return appendIf(dst, noRecursive, " NORECURSIVE")
}

func appendRoleOptions(dst []byte, o *RoleOptions, user bool) []byte {
	if user {
		return appendUserOptions(dst, o)
	}
	word := " WITH "
	next := func(text string) {
		dst = append(append(dst, word...), text...)
		word = " AND "
	}
	if o.Password != nil {
		next("PASSWORD = ")
		dst = appendString(dst, *o.Password)
	}
	if o.HashedPassword != nil {
		next("HASHED PASSWORD = ")
		dst = appendString(dst, *o.HashedPassword)
	}
	if o.Generated {
		next("GENERATED PASSWORD")
	}
	if o.Superuser != nil {
		next("SUPERUSER = ")
		dst = appendBoolean(dst, *o.Superuser)
	}
	if o.Login != nil {
		next("LOGIN = ")
		dst = appendBoolean(dst, *o.Login)
	}
	if o.Options != nil {
		next("OPTIONS = ")
		dst = appendTerm(dst, o.Options)
	}
	if o.Datacenters != nil {
		next("ACCESS TO ")
		dst = appendAccess(dst, o.Datacenters, "DATACENTERS")
	}
	if o.CIDRs != nil {
		next("ACCESS FROM ")
		dst = appendAccess(dst, o.CIDRs, "CIDRS")
	}
	return dst
}

func appendUserOptions(dst []byte, o *RoleOptions) []byte {
	if o.Password != nil {
		dst = appendString(append(dst, " WITH PASSWORD "...), *o.Password)
	}
	if o.HashedPassword != nil {
		dst = appendString(append(dst, " WITH HASHED PASSWORD "...), *o.HashedPassword)
	}
	if o.Generated {
		dst = append(dst, " WITH GENERATED PASSWORD"...)
	}
	if o.Superuser == nil {
		return dst
	}
	if *o.Superuser {
		return append(dst, " SUPERUSER"...)
	}
	return append(dst, " NOSUPERUSER"...)
}

func appendBoolean(dst []byte, value bool) []byte {
	if value {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

func appendAccess(dst []byte, list *AccessList, what string) []byte {
	if list.All {
		return append(append(dst, "ALL "...), what...)
	}
	dst = append(append(dst, what...), " {"...)
	return append(appendList(dst, list.Names, ", ", func(dst []byte, name *string) []byte {
		return appendString(dst, *name)
	}), '}')
}

func appendPermissions(dst []byte, all []Permission) []byte {
	if len(all) == 0 {
		return append(dst, "ALL"...)
	}
	return appendList(dst, all, ", ", func(dst []byte, p *Permission) []byte { return append(dst, p.String()...) })
}

func appendResource(dst []byte, r *Resource) []byte {
	//exhaustive:enforce
	switch r.Kind {
	case ResourceAllKeyspaces:
		return append(dst, "ALL KEYSPACES"...)
	case ResourceKeyspace:
		return appendIdentifier(append(dst, "KEYSPACE "...), r.Name.Keyspace)
	case ResourceAllTablesInKeyspace:
		return appendIdentifier(append(dst, "ALL TABLES IN KEYSPACE "...), r.Name.Keyspace)
	case ResourceTable:
		return appendQualifiedName(append(dst, "TABLE "...), r.Name)
	case ResourceAllRoles:
		return append(dst, "ALL ROLES"...)
	case ResourceRole:
		return appendRoleName(append(dst, "ROLE "...), r.Name.Name)
	case ResourceAllFunctions:
		return append(dst, "ALL FUNCTIONS"...)
	case ResourceAllFunctionsInKeyspace:
		return appendIdentifier(append(dst, "ALL FUNCTIONS IN KEYSPACE "...), r.Name.Keyspace)
	case ResourceFunction:
		return appendArgumentTypes(appendFunctionName(append(dst, "FUNCTION "...), r.Name), r.Args, true)
	case ResourceAllMBeans:
		return append(dst, "ALL MBEANS"...)
	case ResourceMBean:
		return appendString(append(dst, "MBEAN "...), r.Name.Name)
	case ResourceMBeans:
		return appendString(append(dst, "MBEANS "...), r.Name.Name)
	case ResourceNone:
	}
	return append(dst, '?')
}
