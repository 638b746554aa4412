package query

import (
	"net/netip"
	"time"

	"cqld/cql"
	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/query/term"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Session is what a connection is to query. The server owns it; query reads it only, so the server
// sets Keyspace when a Result of KindSetKeyspace tells it to.
type Session struct {
	Keyspace string // empty: none in use
	Version  int    // of the native protocol: 3, 4 or 5
	Options  map[string]string
}

// Params are what comes with a statement (native protocol v5 §4.1.4). Slices belong to the caller
// and are not kept after the call.
type Params struct {
	Values           []wire.Value
	Names            []string // of Values; nil when they are positional
	PageSize         int32    // rows; zero or less: no paging
	PagingState      []byte   // nil: from the beginning
	Timestamp        int64    // µs, when HasTimestamp
	HasTimestamp     bool
	stated           bool   // by USING of a batch, not by a driver that gives one with every request
	Keyspace         string // v5; empty: the session's
	NowInSeconds     int64  // v5, when HasNow
	HasNow           bool
	SkipMetadata     bool
	ResultMetadataID []byte // v5 EXECUTE
	Tracing          bool
}

// BatchEntry is one statement of a BATCH message: a text, or the id of a prepared one.
type BatchEntry struct {
	Text   string
	ID     []byte // nil: Text
	Values []wire.Value
}

// BatchParams is a BATCH message; of Params the values, names, paging and metadata mean nothing.
type BatchParams struct {
	Params
	Kind    cql.BatchKind
	Entries []BatchEntry
}

// Column is a column of a result, or a bind marker.
type Column = term.Spec

// Metadata describes rows. It is immutable and shared by all results of a plan, so a pointer to it
// may be a cache key.
type Metadata struct {
	Columns []Column
	ID      []byte // hash of the columns, the v5 result metadata id
}

// ResultKind says which of a Result's fields mean something.
type ResultKind uint8

// The kinds of results; the values are those of the native protocol.
const (
	KindVoid         ResultKind = 1
	KindRows         ResultKind = 2
	KindSetKeyspace  ResultKind = 3
	KindPrepared     ResultKind = 4
	KindSchemaChange ResultKind = 5
)

// Result is the answer to a statement.
type Result struct {
	Kind ResultKind
	// TracingID is meaningful when Traced.
	TracingID [16]byte
	Traced    bool

	// KindRows
	Metadata        *Metadata
	RowCount        int32
	Rows            []byte // RowCount times one [bytes] for each column
	PagingState     []byte // nil on the last page
	MetadataChanged bool   // v5: the client's id is outdated; send Metadata.ID and all columns
	NoMetadata      bool   // the client asked to leave the columns out, and they are as it knows them

	Keyspace     string        // KindSetKeyspace
	Prepared     *PreparedInfo // KindPrepared
	SchemaChange *SchemaChange // KindSchemaChange

	pooled *rowBuffer
}

// Release gives the memory of Rows back; r and everything in it must not be used afterwards. A
// Result that is never released costs memory, nothing else.
func (r *Result) Release() { r.release() }

// PreparedInfo is the answer to PREPARE.
type PreparedInfo struct {
	ID           []byte
	Binds        []Column
	PartitionKey []uint16  // bind marker of each partition key column; empty unless all are markers
	Result       *Metadata // Columns is nil when the statement returns no rows
}

// SchemaChange is what a DDL statement did: the body of a SCHEMA_CHANGE event.
type SchemaChange struct {
	Change   string // CREATED, UPDATED, DROPPED
	Target   string // KEYSPACE, TABLE, TYPE, FUNCTION, AGGREGATE
	Keyspace string
	Name     string   // empty for KEYSPACE
	Args     []string // of FUNCTION and AGGREGATE
}

// View is what query knows of the cluster at the moment.
type View interface {
	Self() ring.NodeID
	Schema() *schema.Schema
	Topology() *ring.Topology
	Alive(ring.NodeID) bool
}

// VirtualSource makes up the rows of tables that no replica stores: those of system,
// system_schema, system_views, ….
type VirtualSource interface {
	// Serves says whether the rows of t come from here; otherwise they are read from the Store.
	Serves(t *schema.Table) bool
	// Partitions yields the partitions of t in any order until yield returns false. It may omit partitions and rows that cmd
	// does not read; the caller filters what it gets. Rows are sorted by clustering, cells by column and path. The rows are
	// immutable.
	Partitions(t *schema.Table, cmd *row.ReadCommand, yield func(*row.Partition) bool) error
}

// Timestamps gives write timestamps (µs), each greater than any it gave before.
type Timestamps interface{ Next() int64 }

// Timeouts of the requests to the coordinator.
type Timeouts struct {
	Read, Range, Write, Counter, CAS, Truncate time.Duration
	// Schema is how long a change of the schema may take: without a majority of the voters it takes for ever.
	Schema time.Duration
}

// Limits are the bounds of a Processor; zero means the default (limits.go).
type Limits struct {
	PreparedBytesMax int // of the texts and plans in the prepared statement cache
	BatchWarnBytes   int
	BatchFailBytes   int
	BatchPartitions  int // an unlogged batch over more partitions warns
	// TimestampAheadMax is how far before this node's clock a client's timestamp may run; zero: any far.
	TimestampAheadMax time.Duration
}

// Options are what a Processor is made of.
type Options struct {
	Executor *request.Executor // what statements read and write with
	View     View
	Changer  Changer
	Virtual  VirtualSource // nil: there are no virtual tables
	// Estimate estimates how many partitions a table has in all, and their mean size, for EXPLAIN. ok is false if it is not
	// known; nil means that nothing is.
	Estimate   func(t *schema.Table) (partitions, meanBytes int64, ok bool)
	Clock      env.Clock
	Rand       env.Rand       // for uuid() and the like; query serializes its use
	Timestamps Timestamps     // nil: a generator of query's own, from Clock
	PagingKey  func() []byte  // authenticates paging states; equal on all nodes of a cluster
	Local      netip.AddrPort // this node's native address, for traces
	Timeouts   Timeouts       // zero: Cassandra's defaults
	// ClusterName is what DESCRIBE CLUSTER shows.
	ClusterName string
	Limits      Limits
}
