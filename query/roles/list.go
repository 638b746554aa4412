package roles

import (
	"slices"
	"strings"

	"cqld/auth"
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/permissions"
	"cqld/types"
)

// textColumn returns a column of type text.
func textColumn(name string) Column { return Column{name, types.Native(types.Text)} }

// booleanColumn returns a column of type boolean.
func booleanColumn(name string) Column { return Column{name, types.Native(types.Boolean)} }

// listRoles lists all roles, the roles granted to a role or, if the caller lacks DESCRIBE on all roles, the roles
// granted to the caller.
func (e *execution) listRoles(stmt *cql.ListRoles) error {
	if err := e.loggedIn(); err != nil {
		return err
	}
	if stmt.Of != "" {
		if _, exists := e.directory.Role(stmt.Of); !exists {
			return invalid.Errorf("%s doesn't exist", auth.RoleResource(stmt.Of))
		}
	}
	all, err := e.permitted(auth.Describe, auth.AllRoles())
	if err != nil {
		return err
	}
	var names []string
	// A caller sees its own roles without DESCRIBE. As in Cassandra, LIST ROLES without a name then lists only these
	// and does not fail.
	switch {
	case stmt.Of == "" && all:
		names = e.directory.RoleNames()
	case stmt.Of == "":
		names = e.granted(e.caller.Principal.Name, stmt.NoRecursive)
	case all || e.is(stmt.Of):
		names = e.granted(stmt.Of, stmt.NoRecursive)
	default:
		return invalid.Unauthorizedf("You are not authorized to view roles granted to %s ", stmt.Of)
	}
	// Column "super" shows the status of the role itself, unlike LIST USERS, which includes inherited status.
	e.result.Table = "roles"
	e.result.Columns = []Column{textColumn("role"), booleanColumn("super"), booleanColumn("login"),
		{"options", types.NewMap(types.Native(types.Text), types.Native(types.Text), true)}, textColumn("datacenters")}
	for _, name := range names {
		// names come from the same snapshot, so the role exists.
		r, _ := e.directory.Role(name)
		e.result.Rows = append(e.result.Rows, [][]byte{text(name), boolean(r.Superuser), boolean(r.Login),
			e.shownOptions(r), text(e.datacenters(r))})
	}
	return nil
}

// granted returns a role and the roles granted to it. If direct is true, it omits roles granted indirectly.
func (e *execution) granted(role string, direct bool) []string {
	if !direct {
		return e.directory.RolesOf(role)
	}
	r, ok := e.directory.Role(role)
	if !ok {
		return nil
	}
	// append copies: MemberOf belongs to the immutable directory.
	return slices.Sorted(slices.Values(append([]string{role}, r.MemberOf...)))
}

// shownOptions returns the options as a map. It hides the values, which may be secret.
func (e *execution) shownOptions(r *auth.Role) []byte {
	keys := make([]string, 0, len(r.Options))
	// Sort the keys, because the iteration order of a map is random.
	for key := range r.Options {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	// This is the wire form of a map<text, text>: the number of entries, and for each a key and a value as [bytes].
	b := wire.AppendInt32(nil, int32(len(keys)))
	for _, key := range keys {
		b = wire.AppendBytes(b, text(key))
		b = wire.AppendBytes(b, text("*****"))
	}
	return b
}

// datacenters returns the data centers through which a role may access the cluster, as LIST shows them: n/a, ALL, or
// their names.
func (e *execution) datacenters(r *auth.Role) string {
	switch {
	// A role that cannot log in uses no data center itself, and roles do not inherit access from it
	// (auth.Directory.MayAccess).
	case e.o.Config.Network && !r.Login:
		return "n/a"
	// Without CassandraNetworkAuthorizer, restrictions may be stored but are not enforced.
	case !e.o.Config.Network || e.directory.IsSuperuser(r.Name) || !r.Datacenters.Restricted:
		return "ALL"
	}
	return strings.Join(r.Datacenters.Names, ", ")
}

// shownRoles returns the names of the roles that LIST ROLES shows to the caller.
func (e *execution) shownRoles() ([]string, error) {
	if err := e.loggedIn(); err != nil {
		return nil, err
	}
	all, err := e.permitted(auth.Describe, auth.AllRoles())
	if err != nil {
		return nil, err
	}
	if all {
		return e.directory.RoleNames(), nil
	}
	// The caller always sees itself and the roles that it is a member of.
	return e.granted(e.caller.Principal.Name, false), nil
}

// listUsers lists the roles with LOGIN among the roles that LIST ROLES shows to the caller.
func (e *execution) listUsers() error {
	names, err := e.shownRoles()
	if err != nil {
		return err
	}
	e.result.Table = "users"
	e.result.Columns = []Column{textColumn("name"), booleanColumn("super"), textColumn("datacenters")}
	for _, name := range names {
		// names come from the same snapshot, so the role exists.
		if r, _ := e.directory.Role(name); r.Login {
			e.result.Rows = append(e.result.Rows, [][]byte{text(name), boolean(e.directory.IsSuperuser(name)),
				text(e.datacenters(r))})
		}
	}
	return nil
}

// listSuperusers lists the superusers among the roles that LIST ROLES shows to the caller, including roles that
// inherit superuser status.
func (e *execution) listSuperusers() error {
	names, err := e.shownRoles()
	if err != nil {
		return err
	}
	e.result.Table = "roles"
	e.result.Columns = []Column{textColumn("role")}
	for _, name := range names {
		// Inherited status counts, unlike in the column "super" of LIST ROLES.
		if e.directory.IsSuperuser(name) {
			e.result.Rows = append(e.result.Rows, [][]byte{text(name)})
		}
	}
	return nil
}

// listPermissions lists grants. NORECURSIVE excludes those on parents of the resource; roles granted to the role always
// count, as in Cassandra.
func (e *execution) listPermissions(stmt *cql.ListPermissions) error {
	if err := e.loggedIn(); err != nil {
		return err
	}
	// Without a list of permissions, filter contains all of them.
	filter := permissions.Set(stmt.Permissions)
	var on *auth.Resource
	if stmt.Resource.Kind != cql.ResourceNone {
		r, err := permissions.ResourceOf(e.caller.Keyspace, &stmt.Resource)
		if err != nil {
			return err
		}
		if !e.exists(r) {
			return invalid.Errorf("%s doesn't exist", r)
		}
		// on stays nil if the statement names no resource; grants on all resources are then listed.
		on = &r
	}
	names, err := e.listedRoles(stmt.Of)
	if err != nil {
		return err
	}
	for _, name := range names {
		// names already contains the roles from which a role inherits, so direct grants of each are enough. Each row
		// names the role that has the grant.
		for _, g := range e.directory.Grants(name) {
			if on == nil || covers(g.Resource, *on, stmt.NoRecursive) {
				e.addPermissions(g, g.Permissions&filter)
			}
		}
	}
	if len(e.result.Rows) > 0 { // without rows the result is void
		e.result.Table = "permissions"
		e.result.Columns = []Column{textColumn("role"), textColumn("username"), textColumn("resource"),
			textColumn("permission")}
	}
	return nil
}

// listedRoles returns the roles whose permissions are listed: all roles if of is empty, and otherwise the role with
// all roles granted to it. The caller needs DESCRIBE on roles, unless it is a member of the role. Error messages are
// Cassandra's.
func (e *execution) listedRoles(of string) ([]string, error) {
	on := auth.AllRoles()
	if of != "" {
		if on = auth.RoleResource(of); !e.exists(on) {
			return nil, invalid.Errorf("%s doesn't exist", on)
		}
	}
	// An unknown role was reported above, in every configuration.
	if !e.o.Config.Authorization {
		return nil, invalid.Errorf("LIST PERMISSIONS operation is not supported by AllowAllAuthorizer")
	}
	permitted, err := e.permitted(auth.Describe, on)
	switch {
	case err != nil:
		return nil, err
	case of == "" && !permitted:
		return nil, invalid.Unauthorizedf("You are not authorized to view everyone's permissions")
	case of == "":
		return e.directory.RoleNames(), nil
	// A caller needs no permission to list its own permissions.
	case !permitted && !e.is(of):
		return nil, invalid.Unauthorizedf("You are not authorized to view %s's permissions", of)
	}
	return e.directory.RolesOf(of), nil
}

// covers reports whether a grant on the resource granted applies to on: if both are equal or, unless exact, if
// granted is a parent of on. For example, a grant on a keyspace covers its tables.
func covers(granted, on auth.Resource, exact bool) bool {
	for ok := true; ok; on, ok = on.Parent() {
		if granted == on {
			return true
		}
		// NORECURSIVE compares with the resource itself only.
		if exact {
			return false
		}
	}
	return false
}

// addPermissions adds one row for each permission in set. The columns role and username have the same value, as in
// Cassandra.
func (e *execution) addPermissions(g auth.Grant, set auth.PermissionSet) {
	for _, p := range set.List() {
		e.result.Rows = append(e.result.Rows, [][]byte{text(g.Role), text(g.Role), text(g.Resource.String()),
			text(p.String())})
	}
}

// text returns a value of type text. It is never nil, because nil means null: an empty name stays an empty value.
func text(s string) []byte { return append([]byte{}, s...) }

// boolean returns a value of type boolean.
func boolean(b bool) []byte {
	if b {
		return []byte{1}
	}
	return []byte{0}
}
