package roles

import (
	"slices"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"cqld/auth"
	"cqld/cql"
	"cqld/query/invalid"
)

// errEmptyKey refuses an empty name. Roles are rows of Cassandra's tables.
func errEmptyKey() error { return invalid.Errorf("Key may not be empty") }

// roleManager is the class that Cassandra's messages about unsupported options name.
const roleManager = "org.apache.cassandra.auth.CassandraRoleManager"

// createRole executes CREATE ROLE and CREATE USER. The caller needs CREATE on all roles. With CassandraAuthorizer it
// receives all permissions on the new role.
func (e *execution) createRole(stmt *cql.CreateRole) error {
	if err := e.permit(auth.Create, auth.AllRoles()); err != nil {
		return err
	}
	o := &stmt.Options
	if o.Superuser != nil && *o.Superuser && !e.superuser() {
		return invalid.Unauthorizedf("Only superusers can create a role with superuser status")
	}
	// Validate options before checking whether the role exists, so that their errors do not reveal it.
	if err := e.checkOptions(o); err != nil {
		return err
	}
	if err := e.loggedIn(); err != nil {
		return err
	}
	if stmt.Role == "" {
		return invalid.Errorf("Role name can't be an empty string")
	}
	if _, exists := e.directory.Role(stmt.Role); exists {
		if stmt.IfNotExists {
			return nil
		}
		return invalid.Errorf("%s already exists", stmt.Role)
	}
	// The change contains IF NOT EXISTS, too, because another node may create the role between this check and the
	// commit.
	change := &auth.CreateRole{Name: stmt.Role, IfNotExists: stmt.IfNotExists}
	if e.o.Config.Authorization {
		// Without an authorizer there are no grants, so the change names no creator.
		change.Creator = e.caller.Principal.Name
	}
	var err error
	if change.Settings, err = e.settings(o); err != nil {
		return err
	}
	// CREATE USER is CREATE ROLE with LOGIN = true, unless the statement says otherwise.
	if stmt.User && change.Settings.Login == nil {
		login := true
		change.Settings.Login = &login
	}
	return e.proposeWithSecrets(change, stmt.Role, &change.Settings)
}

// alterRole executes ALTER ROLE and ALTER USER. It hashes the password after all checks (settings), because a hash
// takes much CPU time, which a rejected statement must not cause.
func (e *execution) alterRole(stmt *cql.AlterRole) error {
	o := &stmt.Options
	if err := e.mayAlter(stmt.Role, o); err != nil {
		return err
	}
	if err := e.checkOptions(o); err != nil {
		return err
	}
	// RoleOptions contains only pointers and booleans, so comparing it with its zero value detects a statement
	// without options.
	if *o == (cql.RoleOptions{}) {
		return invalid.Errorf("ALTER [ROLE|USER] can't be empty")
	}
	if err := e.loggedIn(); err != nil {
		return err
	}
	if _, exists := e.directory.Role(stmt.Role); !exists {
		switch {
		case stmt.Role == "":
			return errEmptyKey()
		case stmt.IfExists:
			return nil
		}
		return invalid.Errorf("Role %s doesn't exist", stmt.Role)
	}
	// Without the authorizers, CREATE ROLE accepts and stores these options, but ALTER ROLE rejects them.
	switch on := e.o.Config; {
	case o.Datacenters != nil && !on.Network:
		return invalid.Errorf("ACCESS TO DATACENTERS operations not supported by AllowAllNetworkAuthorizer")
	case o.CIDRs != nil && !on.CIDR:
		return invalid.Errorf("ACCESS FROM CIDRS operations not supported by AllowAllCIDRAuthorizer")
	}
	settings, err := e.settings(o)
	if err != nil {
		return err
	}
	return e.proposeWithSecrets(&auth.AlterRole{Name: stmt.Role, IfExists: stmt.IfExists, Settings: settings},
		stmt.Role, &settings)
}

// mayAlter returns an error unless the caller may change these options of a role:
//
//  1. A superuser changes all options of all roles, except its own superuser status.
//  2. Only superusers change superuser status and where a role may connect from and to.
//  3. A role changes its own password.
//  4. Other changes need ALTER on the role. Those of a role with superuser status are reserved to superusers: otherwise
//     ALTER on all roles, which Cassandra accepts, would be enough to set a superuser's password and log in as it.
func (e *execution) mayAlter(role string, o *cql.RoleOptions) error {
	superuser := e.superuser()
	switch {
	// e.is includes roles granted to the caller, whose status the caller inherits.
	case o.Superuser != nil && e.is(role):
		return invalid.Unauthorizedf("You aren't allowed to alter your own superuser status or that of a role " +
			"granted to you")
	case superuser:
		return nil
	case o.Superuser != nil:
		return invalid.Unauthorizedf("Only superusers are allowed to alter superuser status")
	case o.Datacenters != nil:
		return invalid.Unauthorizedf("Only superusers are allowed to alter access to datacenters.")
	case o.CIDRs != nil:
		return invalid.Unauthorizedf("Only superusers are allowed to alter access from CIDR groups.")
	// Rules 1 and 2 are checked above. The password, LOGIN and OPTIONS remain.
	case role != e.caller.Principal.Name:
		if err := e.permit(auth.Alter, auth.RoleResource(role)); err != nil {
			return err
		}
		if e.directory.IsSuperuser(role) {
			return invalid.Unauthorizedf("Only superusers can alter a role with superuser status")
		}
		return nil
	// The caller alters itself, and without ALTER it may only change its password.
	case o.Login != nil:
		return invalid.Unauthorizedf("You aren't allowed to alter LOGIN")
	case o.Options != nil:
		return invalid.Unauthorizedf("You aren't allowed to alter OPTIONS")
	}
	return nil
}

// dropRole executes DROP ROLE and DROP USER. The caller needs DROP on the role, and must be a superuser to drop one. No
// role drops itself.
func (e *execution) dropRole(stmt *cql.DropRole) error {
	if err := e.permit(auth.Drop, auth.RoleResource(stmt.Role)); err != nil {
		return err
	}
	if e.directory.IsSuperuser(stmt.Role) && !e.superuser() {
		return invalid.Unauthorizedf("Only superusers can drop a role with superuser status")
	}
	// Existence is checked after authorization, as the package comment says.
	if err := e.loggedIn(); err != nil {
		return err
	}
	_, exists := e.directory.Role(stmt.Role)
	switch {
	case stmt.Role == "":
		return errEmptyKey()
	case !exists && !stmt.IfExists:
		return invalid.Errorf("%s doesn't exist", stmt.Role)
	case !exists:
		return nil
	// A role that drops itself would lose its connection with this statement.
	case stmt.Role == e.caller.Principal.Name:
		return invalid.Errorf("Cannot DROP primary role for current login")
	}
	return e.propose(&auth.DropRole{Name: stmt.Role, IfExists: stmt.IfExists})
}

// changeMembership executes GRANT role TO grantee and REVOKE role FROM grantee. Only superusers grant and revoke a
// role with superuser status: otherwise, as in Cassandra, a role with AUTHORIZE on all roles could become a
// superuser, or make a superuser an ordinary role.
func (e *execution) changeMembership(role, grantee string, change auth.Change) error {
	if err := e.permit(auth.Authorize, auth.RoleResource(role)); err != nil {
		return err
	}
	if err := e.loggedIn(); err != nil {
		return err
	}
	// IsSuperuser includes inherited status: a role that is a member of a superuser passes the status on to its own
	// members.
	if e.directory.IsSuperuser(role) && !e.superuser() {
		verb := "revoke"
		if _, grant := change.(*auth.GrantRole); grant {
			verb = "grant"
		}
		return invalid.Unauthorizedf("Only superusers can %s a role with superuser status", verb)
	}
	// auth.Apply rejects cycles and existing memberships.
	for _, name := range []string{role, grantee} {
		if _, exists := e.directory.Role(name); !exists {
			return invalid.Errorf("%s doesn't exist", name)
		}
	}
	return e.propose(change)
}

// checkOptions refuses options that are not supported in this configuration and values that are not valid.
func (e *execution) checkOptions(o *cql.RoleOptions) error {
	on := e.o.Config
	switch {
	case o.Password != nil && !on.Authentication:
		return invalid.Errorf(roleManager + " doesn't support PASSWORD")
	case o.Generated && !on.Authentication:
		return invalid.Errorf(roleManager + " doesn't support GENERATED_PASSWORD")
	case o.HashedPassword != nil && !on.Authentication:
		return invalid.Errorf(roleManager + " doesn't support HASHED PASSWORD")
	// Without configured keys, OPTIONS may only contain options of Azure Tables accounts.
	case o.Options != nil && len(on.Options) == 0 && !onlyTables(o.Options):
		return invalid.Errorf(roleManager + " doesn't support OPTIONS")
	}
	if err := e.checkPassword(o); err != nil {
		return err
	}
	if err := e.checkDatacenters(o.Datacenters); err != nil {
		return err
	}
	return e.checkCIDRs(o.CIDRs)
}

const (
	// passwordBytesMax is the length of the longest password of which bcrypt uses every byte. Cassandra accepts longer
	// ones, and ignores the rest.
	passwordBytesMax = 72
	// hashCostMax bounds the cost of a hashed password: each login with it takes 2^cost rounds.
	hashCostMax = 14
	// hashCost is the bcrypt cost of the hashes that nodes compute. Only superusers may set hashes with a greater
	// cost; otherwise a role could make its own logins so expensive that other logins fail.
	hashCost = bcrypt.DefaultCost
)

// checkPassword rejects passwords and hashes that a login cannot verify, and hashes with a cost that the caller may
// not set.
func (e *execution) checkPassword(o *cql.RoleOptions) error {
	if o.Password != nil && len(*o.Password) > passwordBytesMax {
		return invalid.Errorf("The password has %d bytes, and bcrypt uses only the first %d: longer passwords are not "+
			"supported",
			len(*o.Password), passwordBytesMax)
	}
	// The password was checked above; the statement may contain neither.
	if o.HashedPassword == nil {
		return nil
	}
	cost, ok := validHash(*o.HashedPassword)
	switch {
	case !ok:
		return invalid.Errorf("Invalid hashed password value. Please use jBcrypt.")
	// Not even superusers may exceed this bound.
	case cost > hashCostMax:
		return invalid.Errorf("The hashed password has the cost %d; the greatest that is supported is %d", cost,
			hashCostMax)
	case cost > hashCost && !e.superuser():
		return invalid.Unauthorizedf("Only superusers can set a hashed password of a cost greater than %d", hashCost)
	}
	return nil
}

// validHash returns the cost of a hash, and reports whether Cassandra accepts its length and bcrypt version.
func validHash(hash string) (cost int, ok bool) {
	const prefix, length = "$2a$", 60
	// bcrypt.Cost also accepts longer hashes and other versions of bcrypt.
	cost, err := bcrypt.Cost([]byte(hash))
	return cost, err == nil && strings.HasPrefix(hash, prefix) && len(hash) == length
}

// checkDatacenters refuses names that are not data centers of the current topology. nil and ALL are valid.
func (e *execution) checkDatacenters(a *cql.AccessList) error {
	if a == nil || a.All {
		return nil
	}
	// Data centers without nodes are unknown. The names are checked only here: a restriction remains valid after the
	// last node of a data center has left.
	known := map[string]bool{}
	for _, n := range e.o.Topology().Nodes() {
		known[n.Datacenter] = true
	}
	for _, name := range a.Names {
		if !known[name] {
			return invalid.Errorf("Invalid value(s) for DATACENTERS '[%s]',All values must be valid datacenters",
				strings.Join(sorted(a.Names), ", "))
		}
	}
	return nil
}

// checkCIDRs refuses names that are not CIDR groups of the directory. auth.Apply repeats the check for groups that are
// dropped meanwhile.
func (e *execution) checkCIDRs(a *cql.AccessList) error {
	if a == nil || a.All {
		return nil
	}
	// The message lists the unknown names and all groups, both in order.
	groups := e.directory.GroupNames()
	var unknown []string
	for _, name := range sorted(a.Names) {
		if !slices.Contains(groups, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return invalid.Errorf("Invalid CIDR group(s): [%s]. Available CIDR Groups are: [%s]", strings.Join(unknown,
			", "), strings.Join(groups, ", "))
	}
	return nil
}

// sorted returns each name once, in order.
func sorted(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// settings converts the options of a statement to the settings of a change. It hashes the password, which may wait
// for other hashes, so that the metadata log contains only hashes. It generates a password for GENERATED PASSWORD.
// Fields that the statement does not set are nil and do not change the role.
func (e *execution) settings(o *cql.RoleOptions) (auth.RoleSettings, error) {
	out := auth.RoleSettings{Login: o.Login, Superuser: o.Superuser, Hash: o.HashedPassword,
		Datacenters: access(o.Datacenters), CIDRs: access(o.CIDRs)}
	if o.Options != nil {
		var err error
		if out.Options, out.Tables, err = e.optionMap(o.Options); err != nil {
			return out, err
		}
	}
	password := o.Password
	// The parser accepts only one form of a password, so at most one of these applies.
	if o.Generated {
		// Keep the password for the result, because no later statement shows it.
		e.password = e.o.NewPassword()
		password = &e.password
	}
	if password != nil {
		hash, err := e.o.Hash(e.ctx, *password)
		if err != nil {
			return out, err
		}
		out.Hash = &hash
	}
	return out, nil
}

// access converts ACCESS TO and ACCESS FROM. nil means that the statement does not change the access, unlike ALL.
func access(a *cql.AccessList) *auth.Access {
	if a == nil {
		return nil
	}
	return &auth.Access{Restricted: !a.All, Names: a.Names}
}
