package azuretables

import (
	"strings"

	"cqld/azuretables/odata"
)

// permission is a set of what may be done.
type permission uint16

// The permissions, by their letters.
const (
	mayRead   permission = 1 << iota // r
	mayAdd                           // a
	mayUpdate                        // u
	mayDelete                        // d
	mayWrite                         // w
	mayList                          // l
	mayCreate                        // c
)

// parsePermissions reads letters. Those of other services mean nothing here.
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

// level is what an action is done to, as account signatures have it.
type level uint8

// The levels.
const (
	onService   level = 1 << iota // s
	onContainer                   // c: tables
	onObject                      // o: entities
)

// action is what a request wants: on what, and with which permissions: all of all, and one of any unless
// that is empty. (REST reference, "Create an account SAS", "Table service operations".)
type action struct {
	on       level
	all, any permission
}

func readProperties() action  { return action{on: onService, all: mayRead} }
func writeProperties() action { return action{on: onService, all: mayWrite} }
func listTables() action      { return action{on: onContainer, all: mayList} }
func createTable() action     { return action{on: onContainer, any: mayCreate | mayWrite} }
func deleteTable() action     { return action{on: onContainer, all: mayDelete} }
func readPolicies() action    { return action{on: onContainer, all: mayRead} }
func writePolicies() action   { return action{on: onContainer, all: mayWrite} }
func readEntities() action    { return action{on: onObject, all: mayRead} }
func addEntity() action       { return action{on: onObject, all: mayAdd} }
func updateEntity() action    { return action{on: onObject, all: mayUpdate} }
func upsertEntity() action    { return action{on: onObject, all: mayAdd | mayUpdate} }
func deleteEntity() action    { return action{on: onObject, all: mayDelete} }

// grant is what a request may do, by its signature.
type grant struct {
	owner       bool // signed with the account's key: everything
	levels      level
	permissions permission
	table       string // the only one, in lower case; empty: all
	from, to    *bound // the range of keys; nil: open
}

// bound is an inclusive end of a range of keys. Without a row key it is about whole partitions.
type bound struct{ partitionKey, rowKey string }

// permits says whether an action on a table (empty: none) is granted.
func (g *grant) permits(a action, table string) error {
	switch {
	case g.owner:
		return nil
	case g.table != "" && (a.on != onObject || !strings.EqualFold(g.table, table)):
		return odata.Of(odata.AuthorizationFailure)
	case g.levels&a.on == 0:
		return odata.Of(odata.AuthorizationResourceTypeMismatch)
	case g.permissions&a.all != a.all, a.any != 0 && g.permissions&a.any == 0:
		return odata.Of(odata.AuthorizationPermissionMismatch)
	}
	return nil
}

// covers says whether an entity is in the range of keys.
func (g *grant) covers(partitionKey, rowKey string) bool {
	if b := g.from; b != nil && (partitionKey < b.partitionKey || partitionKey == b.partitionKey && b.rowKey != "" && rowKey < b.rowKey) {
		return false
	}
	if b := g.to; b != nil && (partitionKey > b.partitionKey || partitionKey == b.partitionKey && b.rowKey != "" && rowKey > b.rowKey) {
		return false
	}
	return true
}

// restrict is a filter that leaves out what is not in the range of keys.
func (g *grant) restrict(filter odata.Expr) odata.Expr {
	if b := g.from; b != nil {
		filter = both(filter, b.side(odata.Ge, odata.Gt))
	}
	if b := g.to; b != nil {
		filter = both(filter, b.side(odata.Le, odata.Lt))
	}
	return filter
}

// side is the half of all keys on one side of the bound.
func (b *bound) side(reaches, beyond odata.Op) odata.Expr {
	whole := compareKey("PartitionKey", reaches, b.partitionKey)
	if b.rowKey == "" {
		return whole
	}
	// The first comparison says nothing new: it is what a plan sees at once.
	return both(whole, &odata.Or{Left: compareKey("PartitionKey", beyond, b.partitionKey), Right: compareKey("RowKey", reaches, b.rowKey)})
}

func compareKey(property string, op odata.Op, value string) odata.Expr {
	return &odata.Comparison{Property: property, Op: op, Value: odata.Value{Type: odata.String, Bytes: []byte(value)}}
}

func both(a, b odata.Expr) odata.Expr {
	if a == nil {
		return b
	}
	return &odata.And{Left: a, Right: b}
}
