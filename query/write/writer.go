package write

import (
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/cql"
	"cqld/internal/histogram"
	"cqld/query/execution"
	"cqld/query/invalid"
	"cqld/query/restriction"
	"cqld/query/term"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
)

// Options configure a Writer. They must not change while it is used.
type Options struct {
	*execution.Services
	// BatchWarnBytes and BatchFailBytes are sizes of batches, as Cassandra counts them, above which the client gets a
	// warning or an error.
	BatchWarnBytes  int
	BatchFailBytes  int
	BatchPartitions int // number of partitions above which an unlogged batch causes a warning
	// TimestampAheadMax is how far a client's timestamp may be ahead of this node's clock, and TimestampAheadWarn
	// from when on the client gets a warning. Zero means no limit.
	TimestampAheadMax, TimestampAheadWarn time.Duration
}

// Writer compiles and executes INSERT, UPDATE, DELETE and BATCH. Its methods are safe for concurrent use.
type Writer struct {
	o        Options
	writings sync.Pool
	batches  [cql.BatchCounter + 1]histogram.Counts // partitions of batches without conditions, by kind
}

// Batches returns the numbers of partitions that batches of a kind without conditions have changed as percentiles.
func (writer *Writer) Batches(kind cql.BatchKind) histogram.CountPercentiles {
	return writer.batches[kind].Percentiles()
}

// New returns a Writer.
func New(o Options) *Writer {
	writer := &Writer{o: o}
	// The pool is private: writings of another writer would have other options.
	writer.writings.New = func() any { return new(writing) }
	return writer
}

// Outcome is what a client learns of a write that was executed: the rows of a conditional change. Other writes have no
// columns, and the client receives a result without rows.
//
//	applied            [applied] = true
//	not, row missing   [applied] = false
//	not                [applied] = false and the current values, one row for each row with a condition
type Outcome struct {
	// The first one is [applied].
	Columns []term.Spec
	// The number of rows.
	Count  int32
	Values []byte // Count times one [bytes] for each column
}

// compiler compiles one statement into a plan. It is used once.
type compiler struct {
	*term.Compiler
	writer  *Writer
	refused error // see Modification.Refused
}

// pending is a mutation in progress, with the memory that its request needs: one allocation.
type pending struct {
	mutation row.Mutation
	request  coordinator.WriteRequest
	list     [1]*row.Mutation
}

// Execute executes an INSERT, UPDATE or DELETE. It evaluates the plan with params.Values, and waits until enough
// replicas have the changes. A statement that changes several partitions (IN) is an unlogged batch for the coordinator:
// it may be applied in part. The caller has checked the permissions and m.Refused.
func (writer *Writer) Execute(r *request.Request, m *Modification, params *execution.Params) (Outcome, error) {
	if err := writer.permitIndexes(r, m); err != nil {
		return Outcome{}, err
	}
	if err := writer.guardWrites(r, m); err != nil {
		return Outcome{}, err
	}
	// A conditional change has the same bound of time.
	params, err := params.WithTimeout(m.timeout, params.Values)
	if err != nil {
		return Outcome{}, err
	}
	if m.conditional() {
		// The check of consistency levels is different: see executeConditional.
		return writer.executeConditional(r, []Statement{{m, params.Values}}, false, params)
	}
	if err := m.checkConsistency(r.Consistency); err != nil {
		return Outcome{}, err
	}
	// It is returned at the end: the mutations that the coordinator receives are copies.
	w := writer.writings.Get().(*writing)
	defer writer.putWriting(w)
	// One moment: all rows of the statement expire together.
	w.begin(writer, r, params, params.Values, writer.o.Moment(params))
	timestamp := w.chooseTimestamp(writer, params)
	if err := w.stamp(m, timestamp); err != nil {
		return Outcome{}, err
	}
	if err := w.expiry(m); err != nil {
		return Outcome{}, w.expiryError([]Statement{{m, params.Values}}, err)
	}
	// The first mutation needs no allocation of its own; most statements have no other.
	x := &pending{}
	var more []*row.Mutation
	size := 0
	err = w.build(m, func(b *row.Mutation) error {
		size += b.Size()
		// Before the copy is made.
		if err := checkChanges(size); err != nil {
			return err
		}
		into := &x.mutation
		if x.list[0] != nil {
			into = new(row.Mutation)
			// A statement with IN has further mutations; they are allocated one by one.
			more = append(more, into)
		} else {
			x.list[0] = into
		}
		copyMutation(into, b)
		return nil
	})
	// Nothing to write: all values were unset, or IN was empty.
	if err != nil || x.list[0] == nil {
		return Outcome{}, err
	}
	timeouts := writer.o.TimeoutsOf(params)
	x.request = coordinator.WriteRequest{Mutations: x.list[:], Consistency: r.Consistency,
		Type: coordinator.WriteSimple, Timeout: timeouts.Write, Ordered: w.ordered(m.table), Stamp: timestamp}
	if more != nil {
		x.request.Mutations = append(x.request.Mutations, more...)
		x.request.Type = coordinator.WriteUnloggedBatch
	}
	// Also for several partitions: each is led by a replica of its own.
	if isCounterTable(m.table) {
		x.request.Type, x.request.Timeout = coordinator.WriteCounter, timeouts.Counter
	}
	return Outcome{}, writer.execute(r, &x.request)
}

// execute executes a write, and sets the access path of its cost if the leader of a counter update has read. The cost
// is counted even if the write fails: replicas have worked.
func (writer *Writer) execute(r *request.Request, req *coordinator.WriteRequest) error {
	err := writer.o.Executor.Write(r, req)
	if r.Cost.Commands > 0 {
		r.Cost.Path = string(restriction.AccessPartitionKey)
	}
	return err
}

// checkConsistency refuses levels that a statement without a condition cannot have: the serial ones, and for counters
// also ANY.
func (m *Modification) checkConsistency(c ring.Consistency) error {
	switch {
	case !isCounterTable(m.table):
		return execution.CheckWriteLevel(c)
	case c == ring.Any:
		return invalid.Errorf("Consistency level ANY is not yet supported for counter table %s", m.table.Name)
	}
	return execution.CheckCounterLevel(c)
}
