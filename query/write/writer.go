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

// Options configure a Writer.
type Options struct {
	*execution.Services
	BatchWarnBytes  int
	BatchFailBytes  int
	BatchPartitions int // number of partitions from which an unlogged batch causes a warning
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

// Batches returns the numbers of partitions that batches of a kind without conditions have changed.
func (writer *Writer) Batches(kind cql.BatchKind) histogram.CountPercentiles {
	return writer.batches[kind].Percentiles()
}

// New returns a Writer.
func New(o Options) *Writer {
	writer := &Writer{o: o}
	writer.writings.New = func() any { return new(writing) }
	return writer
}

// Outcome is what a client learns of a write that was executed: the rows of a conditional change. Other writes have no
// columns.
type Outcome struct {
	Columns []term.Spec
	Count   int32
	Values  []byte // Count times one [bytes] for each column
}

// compiler compiles one statement into a plan.
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

// Execute executes an INSERT, UPDATE or DELETE.
func (writer *Writer) Execute(r *request.Request, m *Modification, params *execution.Params) (Outcome, error) {
	if err := writer.permitIndexes(r, m); err != nil {
		return Outcome{}, err
	}
	if err := writer.guardWrites(r, m); err != nil {
		return Outcome{}, err
	}
	params, err := params.WithTimeout(m.timeout, params.Values)
	if err != nil {
		return Outcome{}, err
	}
	if m.conditional() {
		return writer.executeConditional(r, []Statement{{m, params.Values}}, false, params)
	}
	if err := m.checkConsistency(r.Consistency); err != nil {
		return Outcome{}, err
	}
	w := writer.writings.Get().(*writing)
	defer writer.putWriting(w)
	w.begin(writer, r, params, params.Values, writer.o.Moment(params))
	timestamp := w.chooseTimestamp(writer, params)
	if err := w.attributes(m, timestamp); err != nil {
		return Outcome{}, err
	}
	x := &pending{}
	var more []*row.Mutation
	size := 0
	err = w.build(m, func(b *row.Mutation) error {
		size += b.Size()
		if err := checkChanges(size); err != nil {
			return err
		}
		into := &x.mutation
		if x.list[0] != nil {
			into = new(row.Mutation)
			more = append(more, into)
		} else {
			x.list[0] = into
		}
		copyMutation(into, b)
		return nil
	})
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
	if isCounterTable(m.table) {
		x.request.Type, x.request.Timeout = coordinator.WriteCounter, timeouts.Counter
	}
	return Outcome{}, writer.execute(r, &x.request)
}

// execute executes a write, and sets the access path of its cost if the leader of a counter update has read.
func (writer *Writer) execute(r *request.Request, req *coordinator.WriteRequest) error {
	err := writer.o.Executor.Write(r, req)
	if r.Cost.Commands > 0 {
		r.Cost.Path = string(restriction.AccessPartitionKey)
	}
	return err
}

func (m *Modification) checkConsistency(c ring.Consistency) error {
	switch {
	case !isCounterTable(m.table):
		return execution.CheckWriteLevel(c)
	case c == ring.Any:
		return invalid.Errorf("Consistency level ANY is not yet supported for counter table %s", m.table.Name)
	}
	return execution.CheckCounterLevel(c)
}
