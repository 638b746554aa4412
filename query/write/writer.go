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
	// TimestampAheadMax is how far a client's timestamp may be ahead of this node's clock, before the statement is
	// rejected, and TimestampAheadWarn how far before the client gets a warning. Zero means no limit.
	TimestampAheadMax, TimestampAheadWarn time.Duration
}

// Writer compiles and executes INSERT, UPDATE, DELETE and BATCH. Its methods are safe for concurrent use.
type Writer struct {
	o        Options
	writings sync.Pool
	batches  [cql.BatchCounter + 1]histogram.Counts // partitions of unconditional batches, by kind
}

// Batches returns percentiles of the number of partitions that unconditional batches of a kind have changed.
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

// Outcome is the result of a write: the rows of a conditional change. Other writes have no columns, and the client
// receives a result without rows.
//
//	applied            [applied] = true
//	not, row missing   [applied] = false
//	not                [applied] = false and the current values, one row for each row with a condition
type Outcome struct {
	// Columns contains the columns of the result; the first is [applied].
	Columns []term.Spec
	// Count is the number of rows.
	Count  int32
	Values []byte // for each row, one [bytes] value for each column
}

// compiler compiles one statement into a plan. It is used once.
type compiler struct {
	*term.Compiler
	writer  *Writer
	refused error // see Modification.Refused
}

// pending combines a mutation with the request that sends it, in a single allocation.
type pending struct {
	mutation row.Mutation
	request  coordinator.WriteRequest
	list     [1]*row.Mutation
}

// Execute executes an INSERT, UPDATE or DELETE. It evaluates the plan with params.Values, and waits for the required
// number of replicas. The coordinator writes a statement on several partitions (IN) as an unlogged batch, which may
// be applied partially. The caller has checked the permissions and m.Refused.
func (writer *Writer) Execute(r *request.Request, m *Modification, params *execution.Params) (Outcome, error) {
	if err := writer.permitIndexes(r, m); err != nil {
		return Outcome{}, err
	}
	if err := writer.guardWrites(r, m); err != nil {
		return Outcome{}, err
	}
	// USING TIMEOUT also applies to conditional changes.
	params, err := params.WithTimeout(m.timeout, params.Values)
	if err != nil {
		return Outcome{}, err
	}
	if m.conditional() {
		// executeConditional checks consistency levels differently.
		return writer.executeConditional(r, []Statement{{m, params.Values}}, false, params)
	}
	if err := m.checkConsistency(r.Consistency); err != nil {
		return Outcome{}, err
	}
	// It is returned at the end: the mutations that the coordinator receives are copies.
	w := writer.writings.Get().(*writing)
	defer writer.putWriting(w)
	// All rows of the statement use the same moment, so they expire together.
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
		// Check the size before the copy.
		if err := checkChanges(size); err != nil {
			return err
		}
		into := &x.mutation
		if x.list[0] != nil {
			into = new(row.Mutation)
			// Allocate the further mutations of a statement with IN.
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
	// Several partitions may have different leaders.
	if isCounterTable(m.table) {
		x.request.Type, x.request.Timeout = coordinator.WriteCounter, timeouts.Counter
	}
	return Outcome{}, writer.execute(r, &x.request)
}

// execute executes a write, and sets the access path of its cost if the leader of a counter update has read. It
// counts the cost even if the write fails.
func (writer *Writer) execute(r *request.Request, req *coordinator.WriteRequest) error {
	err := writer.o.Executor.Write(r, req)
	if r.Cost.Commands > 0 {
		r.Cost.Path = string(restriction.AccessPartitionKey)
	}
	return err
}

// checkConsistency rejects levels that are invalid for an unconditional statement: the serial levels, and for
// counters also ANY.
func (m *Modification) checkConsistency(c ring.Consistency) error {
	switch {
	case !isCounterTable(m.table):
		return execution.CheckWriteLevel(c)
	case c == ring.Any:
		return invalid.Errorf("Consistency level ANY is not yet supported for counter table %s", m.table.Name)
	}
	return execution.CheckCounterLevel(c)
}
