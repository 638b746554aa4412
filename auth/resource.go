package auth

import "strings"

// Kind is a kind of resource. Values are part of the encoding of grants.
type Kind uint8

// The kinds of resources. The zero value is not a kind.
const (
	KindAllKeyspaces Kind = 1 + iota
	KindKeyspace
	KindAllTables // all tables of one keyspace
	KindTable
	KindAllRoles
	KindRole
	KindAllFunctions
	KindKeyspaceFunctions
	KindFunction
	KindAllMBeans
	KindMBean
)

// Resource identifies the object of a permission. It is comparable; create it with the functions below.
type Resource struct {
	Kind     Kind
	Keyspace string // keyspace of the resource; empty for roles, MBeans and all-keyspace resources
	// Name is the name of a table, a role or a control operation, or a function with its argument types: "f(int,
	// text)". It is empty for resources that stand for all of a group.
	Name string
}

// AllKeyspaces returns the root of all keyspaces and tables.
func AllKeyspaces() Resource { return Resource{Kind: KindAllKeyspaces} }

// Keyspace returns a keyspace, which includes all of its tables.
func Keyspace(name string) Resource { return Resource{Kind: KindKeyspace, Keyspace: name} }

// AllTables returns all tables of a keyspace, without the keyspace itself.
func AllTables(keyspace string) Resource { return Resource{Kind: KindAllTables, Keyspace: keyspace} }

// Table returns a table.
func Table(keyspace, name string) Resource {
	return Resource{Kind: KindTable, Keyspace: keyspace, Name: name}
}

// AllRoles returns the root of all roles.
func AllRoles() Resource { return Resource{Kind: KindAllRoles} }

// RoleResource returns a role as a resource.
func RoleResource(name string) Resource { return Resource{Kind: KindRole, Name: name} }

// AllFunctions returns the root of all functions and aggregates.
func AllFunctions() Resource { return Resource{Kind: KindAllFunctions} }

// KeyspaceFunctions returns all functions and aggregates of a keyspace.
func KeyspaceFunctions(keyspace string) Resource {
	return Resource{Kind: KindKeyspaceFunctions, Keyspace: keyspace}
}

// Function returns a function or aggregate; signature is its name with its argument types.
func Function(keyspace, signature string) Resource {
	return Resource{Kind: KindFunction, Keyspace: keyspace, Name: signature}
}

// AllMBeans returns the root of all control operations.
func AllMBeans() Resource { return Resource{Kind: KindAllMBeans} }

// MBean returns a control operation.
func MBean(name string) Resource { return Resource{Kind: KindMBean, Name: name} }

// Parent returns the resource directly above r; ok is false if r is the root of its hierarchy. Following it ends after
// at most three steps.
func (r Resource) Parent() (parent Resource, ok bool) {
	//exhaustive:enforce
	switch r.Kind {
	case KindKeyspace:
		return AllKeyspaces(), true
	// Tables are below all tables of their keyspace, which are below the keyspace: GRANT … ON KEYSPACE includes both.
	case KindAllTables:
		return Keyspace(r.Keyspace), true
	case KindTable:
		return AllTables(r.Keyspace), true
	case KindRole:
		return AllRoles(), true
	case KindKeyspaceFunctions:
		return AllFunctions(), true
	case KindFunction:
		return KeyspaceFunctions(r.Keyspace), true
	case KindMBean:
		return AllMBeans(), true
	case KindAllKeyspaces, KindAllRoles, KindAllFunctions, KindAllMBeans:
	}
	return Resource{}, false
}

// String returns the resource as in Cassandra's messages.
func (r Resource) String() string {
	//exhaustive:enforce
	switch r.Kind {
	case KindAllKeyspaces:
		return "<all keyspaces>"
	case KindKeyspace:
		return "<keyspace " + r.Keyspace + ">"
	case KindAllTables:
		return "<all tables in " + r.Keyspace + ">"
	case KindTable:
		return "<table " + r.Keyspace + "." + r.Name + ">"
	case KindAllRoles:
		return "<all roles>"
	case KindRole:
		return "<role " + r.Name + ">"
	case KindAllFunctions:
		return "<all functions>"
	case KindKeyspaceFunctions:
		return "<all functions in " + r.Keyspace + ">"
	case KindFunction:
		return "<function " + r.Keyspace + "." + r.Name + ">"
	case KindAllMBeans:
		return "<all mbeans>"
	case KindMBean:
		return "<mbean " + r.Name + ">"
	}
	return "<no resource>"
}

// Permissions returns the permissions that can be granted on the resource, which GRANT ALL grants. They are Cassandra's
// for each kind. The list belongs to the caller.
func (r Resource) Permissions() []Permission {
	//exhaustive:enforce
	switch r.Kind {
	// CREATE applies to resources in which something can be created, and DESCRIBE to roles and control operations.
	case KindAllKeyspaces, KindKeyspace, KindAllTables:
		return []Permission{Create, Alter, Drop, Select, Modify, Authorize, Unmask, SelectMasked}
	// A table contains nothing that could be created.
	case KindTable:
		return []Permission{Alter, Drop, Select, Modify, Authorize, Unmask, SelectMasked}
	case KindAllRoles:
		return []Permission{Create, Alter, Drop, Authorize, Describe}
	case KindRole:
		return []Permission{Alter, Drop, Authorize, Describe}
	case KindAllFunctions, KindKeyspaceFunctions:
		return []Permission{Create, Alter, Drop, Authorize, Execute}
	case KindFunction:
		return []Permission{Alter, Drop, Authorize, Execute}
	case KindAllMBeans, KindMBean:
		return []Permission{Select, Modify, Authorize, Describe, Execute}
	}
	return nil
}

// Path returns the resource as in the tables of system_auth, such as data/ks/t and roles/r.
func (r Resource) Path() string {
	//exhaustive:enforce
	switch r.Kind {
	case KindAllKeyspaces:
		return "data"
	case KindKeyspace:
		return "data/" + r.Keyspace
	case KindAllTables:
		return "data/" + r.Keyspace + "/*"
	case KindTable:
		return "data/" + r.Keyspace + "/" + r.Name
	case KindAllRoles:
		return "roles"
	case KindRole:
		return "roles/" + r.Name
	case KindAllFunctions:
		return "functions"
	case KindKeyspaceFunctions:
		return "functions/" + r.Keyspace
	case KindFunction:
		return "functions/" + r.Keyspace + "/" + r.Name
	case KindAllMBeans:
		return "mbean"
	case KindMBean:
		return "mbean/" + r.Name
	}
	return ""
}

// Compare orders resources by their paths.
func (r Resource) Compare(other Resource) int { return strings.Compare(r.Path(), other.Path()) }
