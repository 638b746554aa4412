package entity

import (
	"context"

	"cqld/auth"
	"cqld/azuretables/odata"
	"cqld/internal/env"
	"cqld/request"
	"cqld/ring"
	"cqld/schema"
)

// View is what entity knows of the cluster at the moment.
type View interface {
	Schema() *schema.Schema
	Topology() *ring.Topology
}

// Changer changes the schema; it returns when every live node has the change.
type Changer interface {
	ProposeSchema(ctx context.Context, change schema.Change) error
}

// Options are what a Store is made of.
type Options struct {
	Executor *request.Executor // what requests read and write with
	View     View
	Changer  Changer
	Clock    env.Clock
	Rand     env.Rand
	Limits   Limits
	Timeouts Timeouts
}

// Kind is what an operation does to an entity.
type Kind uint8

// The kinds. Update and Merge want the entity to exist, Insert wants it not to; the others do not ask.
const (
	Insert Kind = 1 + iota
	Update      // replaces all properties
	Merge
	InsertOrReplace
	InsertOrMerge
	Delete
)

// Operation is one change of one entity.
type Operation struct {
	Kind   Kind
	Entity odata.Entity // of a Delete only the keys; Timestamp means nothing
	// Match is the Timestamp (ticks) that the entity must have, when Conditional; otherwise any will do.
	Match       int64
	Conditional bool
	// TTL is how long the properties live, in seconds; zero: the table's default.
	TTL int32
}

// Failed says which operation of a transaction was refused; nothing was done. Err is an *odata.Error, or
// one of the coordinator's.
type Failed struct {
	Index int
	Err   error
}

// Error is the operation's error.
func (f *Failed) Error() string { return f.Err.Error() }

// Unwrap is the operation's error.
func (f *Failed) Unwrap() error { return f.Err }

// Order is that of an answer's rows within a partition.
type Order uint8

// The orders.
const (
	Ascending Order = iota
	Descending
)

// Position is a place in the order of entities: the next one is at it or behind it. In a Descending query
// the next one of that partition is before it, and an empty RowKey is the partition's beginning.
type Position struct{ PartitionKey, RowKey string }

// Query asks for entities in the order of PartitionKey and RowKey.
type Query struct {
	Filter odata.Expr // nil: all
	Select []string   // nil: all properties
	Top    int        // at most so many in this page; zero: Limits.PageEntities
	From   *Position  // nil: from the beginning
	Order  Order
	// CountOnly leaves the entities out of the answer.
	CountOnly bool
	// Each, when it is set, gets the answer's entities one by one, and Page.Entities stays empty: no memory is
	// made for them. An entity is valid during the call only. An error of the query may come after some.
	Each func(*odata.Entity)
}

// Page answers a Query.
type Page struct {
	Entities []odata.Entity
	Count    int       // of entities that matched
	Next     *Position // nil: that was all
	Plan     Plan
}

// Plan is how a query is answered.
type Plan uint8

// The plans, the best first (seeds, "Determine the queries").
const (
	PointQuery Plan = 1 + iota
	RowRangeScan
	PartitionRangeScan
	TableScan
)

// String is the plan in words, as an answer's header says it.
func (p Plan) String() string {
	switch p {
	case PointQuery:
		return "point query"
	case RowRangeScan:
		return "row range scan"
	case PartitionRangeScan:
		return "partition range scan"
	}
	return "table scan"
}

// Service is what the server does with tables and entities: *Store implements it. Errors are *odata.Error,
// *Failed, *auth.Denied, or the coordinator's. Exists and Property read metadata only, on behalf of the server itself, and ask for
// no permission.
type Service interface {
	// Tables lists the account's tables by name (as created), from the one at or behind from on.
	Tables(r *request.Request, account, from string, match func(name string) bool, top int) (names []string, next string, err error)
	CreateTable(r *request.Request, account, name string) error
	DeleteTable(r *request.Request, account, name string) error
	// Exists says whether the account has the table, and how its name was spelled.
	Exists(account, name string) (spelled string, ok bool)
	// Apply does all operations, which are of one partition and of different entities, or none, and says
	// each one's new Timestamp. Its memory is the caller's again when there is no error.
	Apply(r *request.Request, account, table string, ops []Operation) (timestamps []int64, err error)
	Get(r *request.Request, account, table, partitionKey, rowKey string, selected []string) (*odata.Entity, error)
	Query(r *request.Request, account, table string, q *Query) (*Page, error)
	// DeletePartition deletes a whole partition in one request.
	DeletePartition(r *request.Request, account, table, partitionKey string) error
	// Property reads, and SetProperty keeps, what an account or table has besides its data: service
	// properties, stored access policies. Of an account, table is empty.
	Property(account, table, name string) []byte
	SetProperty(r *request.Request, account, table, name string, value []byte) error
	// Authorize returns nil if the request has the permission on a table, or on the account's keyspace when table is empty. The other
	// methods that take a Request ask for what they need themselves.
	Authorize(r *request.Request, permission auth.Permission, account, table string) error
}
