package read

import (
	"sync"

	"cqld/auth"
	"cqld/cql"
	"cqld/query/execution"
	"cqld/query/fragments"
	"cqld/query/term"
	"cqld/request"
	"cqld/row"
	"cqld/schema"
	"cqld/search"
)

// Options configure a Reader.
type Options struct {
	*execution.Services
	// Stored reads a page of what this node has stored, for MUTATION_FRAGMENTS. nil means that it is not supported.
	Stored fragments.Read
	// Estimate estimates how many partitions a table has in all, and their mean size, for EXPLAIN. ok is false if
	// there is no estimate for t; a nil Estimate means that there is none for any table.
	Estimate func(t *schema.Table) (partitions, meanBytes int64, ok bool)
	// IndexEntries counts the entries on this node that a search would look at, up to most, to choose one of several
	// indexes. ok is false if the entries cannot be counted. If IndexEntries is nil, the kinds of the restrictions
	// determine the index.
	IndexEntries func(req *search.Request, most int) (n int, ok bool)
	PagingKey    func() []byte // authenticates paging states
	SharedPaging []byte        // the secret that several clusters share; empty means none
	// PageBytes ends a page; zero means 1 MiB.
	PageBytes int
	// Hidden returns the column of a virtual table that a client may not read although it may read the others, or nil.
	Hidden func(t *schema.Table, client auth.Principal) *schema.Column
	// Visible returns which partitions of a table the client may read; nil means all. If the client may read only
	// some partitions, the error is returned for statements that do not name partitions.
	Visible func(r *request.Request, t *schema.Table) (visible func(key []byte) bool, denied error)
}

// Reader compiles and executes SELECT and EXPLAIN. Its methods are safe for concurrent use.
type Reader struct {
	sharedKey []byte // authenticates paging states that several clusters share; nil means not shared
	o         Options
	readings  sync.Pool
	buffers   sync.Pool
}

// New returns a Reader.
func New(o Options) *Reader {
	if o.PageBytes == 0 {
		o.PageBytes = pageBytesDefault
	}
	reader := &Reader{o: o, sharedKey: sharedPagingKey(o.SharedPaging)}
	// A pooled reading keeps its buffers from one statement to the next.
	reader.readings.New = func() any { return new(reading) }
	reader.buffers.New = func() any { return &Buffer{pool: &reader.buffers} }
	return reader
}

// Rows are the rows of one page of a result.
type Rows struct {
	Count       int32
	Values      []byte  // for each row, one [bytes] value for each column
	PagingState []byte  // nil on the last page
	Buffer      *Buffer // the memory of Values, or nil
}

// Buffer is the reusable memory of a result's rows.
type Buffer struct {
	b    []byte
	pool *sync.Pool
}

// Release returns the memory to a pool. The Values in it must not be used afterwards.
func (b *Buffer) Release() {
	// Larger buffers are left to the garbage collector.
	if cap(b.b) <= bufferKeepMax {
		b.pool.Put(b)
	}
}

// compiler compiles one statement into a plan. A compiler is used for one statement and by one goroutine.
type compiler struct {
	*term.Compiler
	reader *Reader
}

// Compile compiles a SELECT from the compiler's table.
func (reader *Reader) Compile(c *term.Compiler, stmt *cql.Select) (*Plan, error) {
	return (&compiler{c, reader}).statement(stmt)
}

// Execute executes a SELECT. It may be called by several goroutines. The caller has checked permissions and must call
// Release on the Buffer of the result, if there is one, after its last use of Values.
func (reader *Reader) Execute(r *request.Request, plan *Plan, params *execution.Params) (Rows, error) {
	if err := execution.CheckReadLevel(r.Consistency); err != nil {
		return Rows{}, err
	}
	masks, err := reader.o.Masks(r, plan.masking)
	if err != nil {
		return Rows{}, err
	}
	// Fragments show values of columns that cannot be masked one by one.
	if plan.fragments != nil && masks != nil {
		return Rows{}, fragmentsMasked(r, plan.fragments)
	}
	run := reader.readings.Get().(*reading)
	defer run.put()
	run.masks = masks
	given := r.Consistency
	// ReadLevel may change the level for this table only; restore it for further statements of the request.
	defer func() { r.Consistency = given }()
	r.Consistency = execution.ReadLevel(plan.table, given, len(reader.o.View.Topology().Nodes()))
	return run.execute(r, reader, plan, params)
}

// virtualPage executes a command on a virtual table and returns all matching rows that the client may see.
func (reader *Reader) virtualPage(t *schema.Table, cmd *row.ReadCommand, client auth.Principal) ([]byte, error) {
	return execution.VirtualPage(reader.o.Virtual, t, cmd, reader.o.Hidden(t, client))
}

// pagingKey returns the key that authenticates paging states of this cluster; nil means that none is configured. A
// nil Options.PagingKey means an empty key, as in tests of one node.
func (reader *Reader) pagingKey() []byte {
	if reader.o.PagingKey == nil {
		return nil
	}
	return reader.o.PagingKey()
}
