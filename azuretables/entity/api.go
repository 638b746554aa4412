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

// View provides the schema and topology of the cluster. The results are immutable snapshots; each call returns the
// newest one that this node has applied. Two calls may return different versions, so a request takes what it needs
// once.
type View interface {
	Schema() *schema.Schema
	Topology() *ring.Topology
}

// Changer changes the schema on behalf of a client. ProposeSchemaFor returns when every live node has applied the
// change. Both wait until ctx ends at most. An error may leave the change made. A client that has a response may use
// the new table at any node.
type Changer interface {
	// by is the role whose permissions the change needs; it is checked with the schema that the change applies to.
	ProposeSchemaFor(ctx context.Context, by auth.Principal, change schema.Change) error
	// AwaitSchema returns when every live node has applied the schema that this node has.
	AwaitSchema(ctx context.Context) error
}

// Options configures a Store. All fields but Limits and Timeouts are required.
type Options struct {
	Executor *request.Executor // executes the reads and writes of requests
	View     View
	Changer  Changer
	Clock    env.Clock
	Rand     env.Rand
	Limits   Limits
	Timeouts Timeouts
}

// Kind is the kind of change that an operation makes. The zero value is invalid. Each kind is one HTTP method with or
// without If-Match.
type Kind uint8

// The kinds. Update and Merge require the entity to exist, Insert requires that it does not; the others work either
// way.
const (
	Insert Kind = 1 + iota // Insert requires that the entity does not exist
	Update                 // replaces all properties
	Merge                  // Merge keeps properties that the operation does not name
	InsertOrReplace
	InsertOrMerge
	Delete
)

// Operation is one change of one entity. The bytes of its properties may refer to the body of the request. It is valid
// until Apply returns without an error.
type Operation struct {
	Kind   Kind
	Entity odata.Entity // only the keys for a Delete; Timestamp is ignored
	// Match is the Timestamp (ticks) that the entity must have if Conditional is set.
	Match       int64
	Conditional bool
	// TTL is the properties' time to live in seconds; zero means the table's default.
	TTL int32
}

// Failed names the operation of a transaction that was refused; no operation was applied. Err is an *odata.Error, or an
// error of the coordinator. It is returned for transactions of one operation as well. Index lets the server name the
// operation as the service does.
type Failed struct {
	Index int // of the operation in Apply's list, from 0
	Err   error
}

// Error returns the text of Err.
func (f *Failed) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failed) Unwrap() error { return f.Err }

// Order is the order of rows within a partition. The partitions themselves are always in ascending order. A table whose
// clustering order is descending can be read in both orders, too.
type Order uint8

// The orders.
const (
	Ascending Order = iota
	Descending
)

// Position is a position in the order of entities: the next entity is at it or after it. In a Descending query, the
// next entity of the partition is before it, and an empty RowKey is the start of the partition. It need not be the
// position of an existing entity. It is what a continuation token contains.
type Position struct{ PartitionKey, RowKey string }

// Query selects entities in the order of PartitionKey and RowKey. It is not changed by the query.
type Query struct {
	Filter odata.Expr // nil means all entities
	Select []string   // nil means all properties
	Top    int        // maximum number in this page; zero means Limits.PageEntities
	From   *Position  // nil means from the beginning
	Order  Order
	// CountOnly omits the entities from the page.
	CountOnly bool
	// Each, if set, is called with each entity, and Page.Entities stays empty, which avoids allocating them. An entity
	// is valid only during the call. The query may fail after some calls.
	Each func(*odata.Entity)
}

// Page is the result of a Query. Entities refer to memory of the page's reads, and may be kept.
type Page struct {
	Entities []odata.Entity
	Count    int       // number of matching entities
	Next     *Position // nil means that no entities remain
	Plan     Plan
}

// Plan is the way in which a query is executed. Zero means that no plan was made. It is reported in x-cqld-plan.
type Plan uint8

// The plans, the cheapest first (Azure Tables' design guide, "Determine the queries").
const (
	PointQuery Plan = 1 + iota
	RowRangeScan
	PartitionRangeScan
	TableScan
)

// String returns the plan in words, as in the response header. Any unknown value counts as a table scan.
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

// Service executes operations on tables and entities; *Store implements it. Errors are *odata.Error, *Failed,
// *auth.Denied, or errors of the coordinator. Exists and Property read metadata for the server itself and check no
// permission. A Service is safe for concurrent use. The names of accounts and tables in its parameters may refer to
// memory of the request; it keeps no such string. Names of tables have no case.
type Service interface {
	// Tables lists the account's tables by name (as created), starting at from.
	Tables(r *request.Request, account, from string, match func(name string) bool, top int) (names []string,
		next string, err error)
	// CreateTable returns when every live node has the table.
	CreateTable(r *request.Request, account, name string) error
	// DeleteTable returns ResourceNotFound if the table does not exist.
	DeleteTable(r *request.Request, account, name string) error
	// Exists reports whether the account has the table, and returns its name as created.
	Exists(account, name string) (spelled string, ok bool)
	// Apply applies all operations, which must be on different entities of one partition, or none, and returns the new
	// Timestamp of each. If it succeeds, the caller may reuse the memory of the operations.
	Apply(r *request.Request, account, table string, ops []Operation) (timestamps []int64, err error)
	// Get returns ResourceNotFound if the entity does not exist. selected are names of properties; nil means all.
	Get(r *request.Request, account, table, partitionKey, rowKey string, selected []string) (*odata.Entity, error)
	Query(r *request.Request, account, table string, q *Query) (*Page, error)
	// DeletePartition deletes a whole partition in one request.
	DeletePartition(r *request.Request, account, table, partitionKey string) error
	// Property reads, and SetProperty stores, metadata of an account (if table is empty) or a table: service
	// properties, stored access policies.
	Property(account, table, name string) []byte
	SetProperty(r *request.Request, account, table, name string, value []byte) error
	// Authorize returns nil if the request has the permission on a table, or on the account's keyspace if table is
	// empty. The other methods that take a Request check the permissions that they need.
	Authorize(r *request.Request, permission auth.Permission, account, table string) error
}
