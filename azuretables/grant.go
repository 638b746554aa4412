package azuretables

import (
	"strings"

	"cqld/azuretables/odata"
)

// permission is a set of the permissions of a shared access signature.
type permission uint16

// The permissions and their letters.
const (
	mayRead   permission = 1 << iota // r
	mayAdd                           // a
	mayUpdate                        // u
	mayDelete                        // d
	mayWrite                         // w
	mayList                          // l
	mayCreate                        // c
)

// parsePermissions parses letters. It ignores letters of other storage services. Order and repetition do not matter. An
// empty text has no permission.
func parsePermissions(s string) (p permission) {
	for i := range len(s) {
		switch s[i] {
		case 'r':
			p |= mayRead
		case 'a':
			p |= mayAdd
		case 'u':
			p |= mayUpdate
		case 'd':
			p |= mayDelete
		case 'w':
			p |= mayWrite
		case 'l':
			p |= mayList
		case 'c':
			p |= mayCreate
		}
	}
	return p
}

// level is the type of resource that an action applies to, as in account signatures. An account signature lists levels
// in srt. A table signature is always for entities.
type level uint8

// The levels.
const (
	onService   level = 1 << iota // s
	onContainer                   // c: tables
	onObject                      // o: entities
)

// action describes what a request needs: the resource type, every permission of all, and at least one of any unless
// that is empty. (REST reference, "Create an account SAS", "Table service operations".) The zero action needs nothing.
// The functions below are the table of that section. No signature permits an action with owned: it needs the account's
// key.
type action struct {
	on       level
	all, any permission
	owned    bool
}

func readProperties() action  { return action{on: onService, all: mayRead} }
func writeProperties() action { return action{on: onService, all: mayWrite} }
func listTables() action      { return action{on: onContainer, all: mayList} }
func createTable() action     { return action{on: onContainer, any: mayCreate | mayWrite} }
func deleteTable() action     { return action{on: onContainer, all: mayDelete} }
func policies() action        { return action{on: onContainer, owned: true} }
func readEntities() action    { return action{on: onObject, all: mayRead} }
func addEntity() action       { return action{on: onObject, all: mayAdd} }
func updateEntity() action    { return action{on: onObject, all: mayUpdate} }
func upsertEntity() action    { return action{on: onObject, all: mayAdd | mayUpdate} }
func deleteEntity() action    { return action{on: onObject, all: mayDelete} }

// grant is what a request's signature allows. It belongs to one request. Nil fields mean no restriction. A request that
// is signed with a key gets the grant owner; a SAS gets another one.
type grant struct {
	owner       bool // signed with the account's key: allows everything
	levels      level
	permissions permission
	table       string // the only table, in lower case; empty means all tables
	from, to    *bound // key range; nil means unbounded
	secondary   bool   // the request was sent to the secondary endpoint, which accepts no changes
}

// owner returns the grant of requests that are signed with the account's key.
func owner() *grant { return &grant{owner: true} }

// bound is an inclusive end of a key range. Without a row key it includes the whole partition. An empty partition key
// is before all others.
type bound struct{ partitionKey, rowKey string }

// permits returns nil if the grant allows an action on a table (empty if the action has none). Account signatures have
// no table: they cover all tables. The order of the checks decides the error code. It does not check the key range: see
// covers and restrict.
func (g *grant) permits(a action, table string) error {
	switch {
	case g.owner:
		return nil
	// Only the owner may see and replace policies: they grant access that outlives the signature.
	case a.owned:
		return odata.Of(odata.AuthorizationFailure)
	// A signature for one table covers only entities, and names of tables have no case.
	case g.table != "" && (a.on != onObject || !strings.EqualFold(g.table, table)):
		return odata.Of(odata.AuthorizationFailure)
	// A level that the signature lacks has its own code; a permission that it lacks has another.
	case g.levels&a.on == 0:
		return odata.Of(odata.AuthorizationResourceTypeMismatch)
	case g.permissions&a.all != a.all, a.any != 0 && g.permissions&a.any == 0:
		return odata.Of(odata.AuthorizationPermissionMismatch)
	}
	return nil
}

// permitsChange is permits for actions that change data.
func (g *grant) permitsChange(a action, table string) error {
	// Even the owner cannot change anything through the secondary endpoint.
	if g.secondary {
		return &odata.Error{Code: insufficientAccountPermissions, Message: secondaryWrite}
	}
	return g.permits(a, table)
}

// covers reports whether an entity is in the key range. Keys compare by bytes, like the order of entities. It is for
// single entities; queries are restricted by a filter.
func (g *grant) covers(partitionKey, rowKey string) bool {
	// A bound without a row key ends with its partition: its rows are all covered.
	if b := g.from; b != nil && (partitionKey < b.partitionKey || partitionKey == b.partitionKey && b.rowKey != "" &&
		rowKey < b.rowKey) {
		return false
	}
	if b := g.to; b != nil && (partitionKey > b.partitionKey || partitionKey == b.partitionKey && b.rowKey != "" &&
		rowKey > b.rowKey) {
		return false
	}
	return true
}

// restrict narrows a filter to the key range. A nil filter means all entities. The grant's own filter is the same for
// every query, so it narrows a continuation, too. The client cannot widen it: both filters must match.
func (g *grant) restrict(filter odata.Expr) odata.Expr {
	if b := g.from; b != nil {
		filter = both(filter, b.side(odata.Ge, odata.Gt))
	}
	if b := g.to; b != nil {
		filter = both(filter, b.side(odata.Le, odata.Lt))
	}
	return filter
}

// side returns the filter for the keys on one side of the bound, including the bound. reaches is the operator that
// includes the bound, beyond the one that excludes it: Ge and Gt, or Le and Lt. The bound (p, r) with Ge is:
// PartitionKey ge p and (PartitionKey gt p or RowKey ge r).
func (b *bound) side(reaches, beyond odata.Op) odata.Expr {
	whole := compareKey("PartitionKey", reaches, b.partitionKey)
	if b.rowKey == "" {
		return whole
	}
	// The first comparison is redundant, but gives the query plan its range of partitions.
	return both(whole, &odata.Or{Left: compareKey("PartitionKey", beyond, b.partitionKey),
		Right: compareKey("RowKey", reaches, b.rowKey)})
}

// compareKey returns a comparison of one of the two keys, which are strings. The value is not escaped, because it is no
// text of a filter.
func compareKey(property string, op odata.Op, value string) odata.Expr {
	return &odata.Comparison{Property: property, Op: op, Value: odata.Value{Type: odata.String, Bytes: []byte(value)}}
}

// both returns the conjunction of two filters; a nil a means no filter. b is never nil.
func both(a, b odata.Expr) odata.Expr {
	if a == nil {
		return b
	}
	return &odata.And{Left: a, Right: b}
}
