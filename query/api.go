package query

import (
	"net/netip"
	"sync"
	"time"

	"cqld/audit"
	"cqld/cql"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/internal/wire"
	"cqld/query/definition"
	"cqld/query/execution"
	"cqld/query/fragments"
	"cqld/query/guardrail"
	"cqld/query/read"
	"cqld/query/roles"
	"cqld/query/term"
	"cqld/request"
	"cqld/schema"
	"cqld/search"
	"cqld/udf/value"
)

// Session is the state of a connection that query needs. The server owns it and query only reads it: the server sets
// Keyspace after a Result of KindSetKeyspace. The connection's goroutine changes it only between requests.
type Session struct {
	Keyspace string // empty if none is in use
	Version  int    // of the native protocol: 3 to 6
	// Options contains the options of STARTUP; nil if the client sent none.
	Options map[string]string
}

// Params are the parameters of a statement.
type Params = execution.Params

// BatchEntry is one statement of a BATCH message: CQL text, or the id of a prepared statement. Exactly one of Text
// and ID is used.
type BatchEntry struct {
	Text string
	ID   []byte // nil means Text
	// bound by position; a BATCH message has no names
	Values []wire.Value
}

// BatchParams is a BATCH message. The values, names, paging and metadata of Params are not used. Consistency levels are
// in the request.Request.
type BatchParams struct {
	Params
	Kind    cql.BatchKind
	Entries []BatchEntry
}

// Column is a column of a result, or a bind marker.
type Column = term.Spec

// Metadata describes rows. It is immutable and shared by all results of a plan, so a pointer to it may be a cache
// key.
type Metadata struct {
	Columns []Column
	// ID changes if the name or type of a column changes (term.HashSpecs).
	ID []byte // hash of the columns, the v5 result metadata id
}

// ResultKind determines which fields of a Result are used. The server writes it as the kind of a RESULT message.
type ResultKind uint8

// The kinds of results. Their values are the kinds of a RESULT message in the native protocol.
const (
	KindVoid         ResultKind = 1
	KindRows         ResultKind = 2
	KindSetKeyspace  ResultKind = 3
	KindPrepared     ResultKind = 4
	KindSchemaChange ResultKind = 5
)

// Result is the result of a statement. It belongs to the caller, which calls Release when it has encoded it. Metadata,
// Prepared and SchemaChange are shared and must not be changed.
type Result struct {
	Kind ResultKind

	// Fields of KindRows.
	Metadata        *Metadata
	RowCount        int32
	Rows            []byte // for each row, one [bytes] value for each column
	PagingState     []byte // nil on the last page
	MetadataChanged bool   // v5: the client's id is outdated; send Metadata.ID and all columns
	NoMetadata      bool   // the client requested no column metadata, and knows the current ones

	Keyspace     string        // KindSetKeyspace
	Prepared     *PreparedInfo // KindPrepared
	SchemaChange *SchemaChange // KindSchemaChange

	// pooled owns the memory of Rows until Release; nil if the memory is not pooled.
	pooled *read.Buffer
	pool   *sync.Pool // receives the Result itself on Release; may be nil
}

// Release returns the memory of Rows, and of r itself, to pools. It is called at most once, and r and everything in it
// must not be used afterwards. A Result that is not released only costs memory.
func (r *Result) Release() { r.release() }

// PreparedInfo is the result of PREPARE. Its slices are shared with the plan.
type PreparedInfo struct {
	ID []byte
	// In the order of their indexes.
	Binds        []Column
	PartitionKey []uint16  // bind marker of each partition key column; empty unless all are markers
	Result       *Metadata // Columns is nil if the statement returns no rows
}

// SchemaChange describes the effect of a DDL statement: the body of a SCHEMA_CHANGE event. The server sends it as a
// RESULT to the client that executed the statement, and as an event to clients that have registered for schema
// changes.
type SchemaChange struct {
	// The server copies Change and Target into the event without a conversion.
	Change   string // CREATED, UPDATED, DROPPED
	Target   string // KEYSPACE, TABLE, TYPE, FUNCTION, AGGREGATE
	Keyspace string
	Name     string   // empty for KEYSPACE
	Args     []string // of FUNCTION and AGGREGATE
}

// VirtualSource generates the rows of tables that no replica stores, such as those in system_schema and system_views.
type VirtualSource = execution.VirtualSource

// Timeouts are the timeouts of requests to the coordinator.
type Timeouts = execution.Timeouts

// Limits are the bounds of a Processor. Zero means the default (limits.go).
type Limits struct {
	PreparedBytesMax int // bytes of the texts and plans in the prepared statement cache
	// size of a batch, in bytes of its keys and values, that causes a warning
	BatchWarnBytes  int
	BatchFailBytes  int
	BatchPartitions int // number of partitions from which an unlogged batch causes a warning
	// TimestampAheadMax is how far a client's timestamp may be ahead of this node's clock, before the statement is
	// rejected, and TimestampAheadWarn how far before the client gets a warning. Zero means no limit.
	TimestampAheadMax, TimestampAheadWarn time.Duration
}

// Options configure a Processor. Executor, View, Changer, Clock and Rand must be set. Functions must be safe for
// concurrent use.
type Options struct {
	Executor *request.Executor // what statements read and write with
	View     execution.View
	Changer  Changer
	Roles    *roles.Statements // nil means that statements about roles are not supported
	Virtual  VirtualSource     // nil means that there are no virtual tables
	// Stored reads a page of what this node has stored, for MUTATION_FRAGMENTS. nil means that it is not supported.
	Stored fragments.Read
	// Estimate estimates how many partitions a table has in all, and their mean size, for EXPLAIN. ok is false if
	// there is no estimate for t; a nil Estimate means that there is none for any table.
	Estimate func(t *schema.Table) (partitions, meanBytes int64, ok bool)
	// IndexEntries counts the entries on this node that a search would look at, up to most, to choose one of several
	// indexes. ok is false if the entries cannot be counted. If IndexEntries is nil, the kinds of the restrictions
	// determine the index.
	IndexEntries func(req *search.Request, most int) (n int, ok bool)
	Clock        env.Clock
	Rand         env.Rand             // for uuid() and similar functions; query serializes its use
	Timestamps   execution.Timestamps // nil means a generator from Clock
	PageBytes    int                  // ends a page of a result; zero means 1 MiB
	// authenticates paging states and trace ids; all nodes of a cluster need the same key
	PagingKey    func() []byte
	SharedPaging []byte         // the secret of paging states that several clusters share; empty means none
	Local        netip.AddrPort // this node's native address, for traces
	Timeouts     Timeouts       // zero means Cassandra's defaults
	// TraceBudget reports whether a trace with the given number of bytes may be stored, and counts these bytes. nil
	// means that there is no bound.
	TraceBudget func(bytes int) bool
	// ClusterName is the name that DESCRIBE CLUSTER shows.
	ClusterName string
	// NoUserFunctions rejects CREATE FUNCTION and calls of user-defined functions.
	NoUserFunctions bool
	FunctionLimits  value.Limits // bounds of one call of a user-defined function; zero fields have defaults
	// FunctionMemory bounds what all calls and compilations of functions use together; zero means no bound.
	FunctionMemory int64
	// Guard logs and counts panics during calls of user-defined functions. If it is nil, a panic only fails the
	// statement.
	Guard *guard.Guard
	// DynamicDataMasking allows masks of columns, and applies them for clients without UNMASK.
	DynamicDataMasking bool
	// DropCompactStorage permits ALTER TABLE … DROP COMPACT STORAGE.
	DropCompactStorage bool
	ViewsDisabled      bool // reject CREATE MATERIALIZED VIEW
	NodeLocal          bool // accept consistency level NODE_LOCAL
	// DropGrace returns how long tables that are dropped now can be restored. If it is nil or returns 0, dropped
	// tables cannot be restored.
	DropGrace  func() time.Duration
	Truncater  Truncater             // nil means that rows are not retained by TRUNCATE
	Guardrails *guardrail.Guardrails // nil means none
	// IsSuperuser reports whether a role is exempt from guardrails. nil means that no role is exempt.
	IsSuperuser func(role string) bool
	Indexes     definition.Indexes // the kinds of indexes that users may create
	Limits      Limits
	Audit       *audit.Log // records the statements of clients; nil means that none are recorded
}
