package cql

import (
	"cqld/grammar"
)

// Error messages for quoted names of users and identities.
const (
	userNameQuoted = "Quoted strings are are not supported for user names and USER is deprecated, please use ROLE"
	identityQuoted = "Quoted strings are are not supported for identity"
)

// roleName returns the name of a role: a name, folded like others, or a string.
func roleName(ctx grammar.IRoleNameContext) string {
	if s := ctx.STRING_LITERAL(); s != nil {
		return stringText(s.GetText())
	}
	return name(ctx.Ident())
}

// userName returns the name of a user or an identity. Unlike all other names, it keeps its case even without quotes.
func (b roleBuilder) userName(ctx grammar.IUserNameContext, quoted string) string {
	switch {
	case ctx.QUOTED_NAME() != nil:
		b.fail(quoted)
	case ctx.STRING_LITERAL() != nil:
		return stringText(ctx.STRING_LITERAL().GetText())
	}
	// Cassandra folds names of roles but not of users: a user created as Bob is the role "Bob".
	return ctx.GetStart().GetText()
}

// roleOptions builds the options of WITH, and refuses two forms of a password.
func (b roleBuilder) roleOptions(all []grammar.IRoleOptionContext) RoleOptions {
	var o RoleOptions
	for _, c := range all {
		b.roleOption(&o, c)
	}
	// Check after all options are read, because they may be in any order.
	switch {
	case o.Password != nil && o.HashedPassword != nil:
		b.fail("Options 'password' and 'hashed password' are mutually exclusive")
	case o.Generated && o.Password != nil:
		b.fail("Options 'password' and 'generated password' are mutually exclusive")
	case o.Generated && o.HashedPassword != nil:
		b.fail("Options 'hashed password' and 'generated password' are mutually exclusive")
	}
	return o
}

// roleOption sets one option. HASHED is tested before PASSWORD, which follows it in the text.
func (b roleBuilder) roleOption(o *RoleOptions, ctx grammar.IRoleOptionContext) {
	switch {
	case ctx.K_GENERATED() != nil:
		if o.Generated {
			b.fail("Multiple definition for property 'GENERATED_PASSWORD'")
		}
		o.Generated = true
	case ctx.K_HASHED() != nil:
		setOnce(b.builder, &o.HashedPassword, stringText(ctx.STRING_LITERAL().GetText()), "HASHED_PASSWORD")
	case ctx.K_PASSWORD() != nil:
		setOnce(b.builder, &o.Password, stringText(ctx.STRING_LITERAL().GetText()), "PASSWORD")
	case ctx.K_OPTIONS() != nil:
		if o.Options != nil {
			b.fail("Multiple definition for property 'OPTIONS'")
		}
		// The map follows the rules of properties: literals only, no duplicate keys.
		o.Options = schemaBuilder(b).propertyMap(ctx.AllMapEntry())
	case ctx.K_SUPERUSER() != nil:
		// literal normalizes the spelling, so TRUE is true.
		setOnce(b.builder, &o.Superuser, literal(ctx.BOOLEAN().GetSymbol()).Text == "true", "SUPERUSER")
	case ctx.K_LOGIN() != nil:
		setOnce(b.builder, &o.Login, literal(ctx.BOOLEAN().GetSymbol()).Text == "true", "LOGIN")
	case ctx.K_TO() != nil:
		setAccess(b.builder, &o.Datacenters, ctx, "DCs have already been set")
	default:
		setAccess(b.builder, &o.CIDRs, ctx, "CIDR groups have already been set")
	}
}

// setOnce sets an option that must not be repeated.
func setOnce[V any](b *builder, option **V, value V, name string) {
	if *option != nil {
		b.fail("Multiple definition for property '" + name + "'")
	}
	*option = &value
}

// setAccess sets ACCESS TO or ACCESS FROM, which must not be repeated.
func setAccess(b *builder, option **AccessList, ctx grammar.IRoleOptionContext, twice string) {
	if *option != nil {
		b.fail(twice)
	}
	// ALL has no set of names in the grammar, so at most one of the two is set.
	list := &AccessList{All: ctx.K_ALL() != nil}
	if set := ctx.StringSet(); set != nil {
		for _, s := range set.AllSTRING_LITERAL() {
			list.Names = append(list.Names, stringText(s.GetText()))
		}
	}
	*option = list
}

// userOptions builds the options of CREATE USER and ALTER USER. The parser rejects all other words.
func userOptions(password grammar.IUserPasswordContext, superuser, noSuperuser bool) RoleOptions {
	var o RoleOptions
	if password != nil && password.K_GENERATED() != nil {
		o.Generated = true
	} else if password != nil {
		text := stringText(password.STRING_LITERAL().GetText())
		if password.K_HASHED() != nil {
			o.HashedPassword = &text
		} else {
			o.Password = &text
		}
	}
	// Without either word the option stays unset, so ALTER USER does not change it.
	if superuser || noSuperuser {
		o.Superuser = &superuser
	}
	return o
}

// addIdentity builds ADD IDENTITY.
func (b roleBuilder) addIdentity(ctx *grammar.AddIdentityContext) Statement {
	return &AddIdentity{
		Identity:    b.userName(ctx.UserName(0), identityQuoted),
		IfNotExists: ctx.IfNotExists() != nil,
		Role:        b.userName(ctx.UserName(1), identityQuoted),
	}
}

// grant builds GRANT of a role, or of permissions on a resource.
func (b roleBuilder) grant(ctx *grammar.GrantContext) Statement {
	// GRANT a TO b has two names of roles; GRANT … ON … TO b has one.
	if ctx.Resource() == nil {
		return &GrantRole{Role: roleName(ctx.RoleName(0)), Grantee: roleName(ctx.RoleName(1))}
	}
	return &GrantPermissions{
		Permissions: permissions(ctx.Permissions()),
		Resource:    b.resource(ctx.Resource()),
		Grantee:     roleName(ctx.RoleName(0)),
	}
}

// revoke builds REVOKE, with the same forms as GRANT.
func (b roleBuilder) revoke(ctx *grammar.RevokeContext) Statement {
	if ctx.Resource() == nil {
		return &RevokeRole{Role: roleName(ctx.RoleName(0)), Grantee: roleName(ctx.RoleName(1))}
	}
	return &RevokePermissions{
		Permissions: permissions(ctx.Permissions()),
		Resource:    b.resource(ctx.Resource()),
		Grantee:     roleName(ctx.RoleName(0)),
	}
}

// list builds LIST ROLES, USERS, SUPERUSERS, and LIST permissions, which has no word of its own.
func (b roleBuilder) list(ctx *grammar.ListContext) Statement {
	of := ""
	if ctx.RoleName() != nil {
		of = roleName(ctx.RoleName())
	}
	noRecursive := ctx.K_NORECURSIVE() != nil
	// Permissions come last, because no keyword identifies them.
	switch {
	case ctx.K_USERS() != nil:
		return &ListUsers{}
	case ctx.K_SUPERUSERS() != nil:
		return &ListUsers{Superusers: true}
	case ctx.K_ROLES() != nil:
		return &ListRoles{Of: of, NoRecursive: noRecursive}
	}
	l := &ListPermissions{Permissions: permissions(ctx.Permissions()), Of: of, NoRecursive: noRecursive}
	if r := ctx.Resource(); r != nil {
		l.Resource = b.resource(r)
	}
	return l
}

// permissions returns the permissions of a list; nil for ALL.
func permissions(ctx grammar.IPermissionsContext) []Permission {
	var out []Permission
	for _, p := range ctx.AllPermission() {
		out = append(out, permission(p.GetStart().GetTokenType()))
	}
	return out
}

// permission returns the permission of a token.
func permission(token int) Permission {
	switch token {
	case grammar.CqlLexerK_CREATE:
		return PermissionCreate
	case grammar.CqlLexerK_ALTER:
		return PermissionAlter
	case grammar.CqlLexerK_DROP:
		return PermissionDrop
	case grammar.CqlLexerK_SELECT:
		return PermissionSelect
	case grammar.CqlLexerK_MODIFY:
		return PermissionModify
	case grammar.CqlLexerK_AUTHORIZE:
		return PermissionAuthorize
	case grammar.CqlLexerK_DESCRIBE:
		return PermissionDescribe
	case grammar.CqlLexerK_EXECUTE:
		return PermissionExecute
	case grammar.CqlLexerK_UNMASK:
		return PermissionUnmask
	case grammar.CqlLexerK_SELECT_MASKED:
		return PermissionSelectMasked
	}
	panic("cql: a token of permission has no builder")
}

// resource builds what follows ON. It tests plural words first, because they precede names in the rule. The words
// determine the kind; package query checks that the object exists.
func (b roleBuilder) resource(ctx grammar.IResourceContext) Resource {
	inKeyspace := func() QualifiedName { return QualifiedName{Keyspace: name(ctx.Ident())} }
	switch {
	case ctx.K_KEYSPACES() != nil:
		return Resource{Kind: ResourceAllKeyspaces}
	case ctx.K_TABLES() != nil:
		return Resource{Kind: ResourceAllTablesInKeyspace, Name: inKeyspace()}
	case ctx.K_ROLES() != nil:
		return Resource{Kind: ResourceAllRoles}
	// ALL FUNCTIONS IN KEYSPACE k has a name; ALL FUNCTIONS does not.
	case ctx.K_FUNCTIONS() != nil && ctx.Ident() != nil:
		return Resource{Kind: ResourceAllFunctionsInKeyspace, Name: inKeyspace()}
	case ctx.K_FUNCTIONS() != nil:
		return Resource{Kind: ResourceAllFunctions}
	case ctx.K_ALL() != nil:
		return Resource{Kind: ResourceAllMBeans}
	case ctx.KeyspaceKeyword() != nil:
		return Resource{Kind: ResourceKeyspace, Name: inKeyspace()}
	case ctx.RoleName() != nil:
		return Resource{Kind: ResourceRole, Name: QualifiedName{Name: roleName(ctx.RoleName())}}
	case ctx.FunctionName() != nil:
		// Parentheses are part of the rule: a permission never concerns all overloads of a name.
		args, _ := b.argumentTypes(ctx.ArgumentTypes())
		return Resource{Kind: ResourceFunction, Name: functionName(ctx.FunctionName()), Args: args}
	case ctx.K_MBEAN() != nil:
		return Resource{Kind: ResourceMBean, Name: QualifiedName{Name: stringText(ctx.STRING_LITERAL().GetText())}}
	case ctx.K_MBEANS() != nil:
		return Resource{Kind: ResourceMBeans, Name: QualifiedName{Name: stringText(ctx.STRING_LITERAL().GetText())}}
	}
	// The word TABLE is optional, so a bare name is a table.
	return Resource{Kind: ResourceTable, Name: tableName(ctx.TableName())}
}
