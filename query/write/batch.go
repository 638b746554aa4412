package write

import (
	"fmt"
	"slices"
	"strings"

	"cqld/coordinator"
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/execution"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/request"
	"cqld/row"
	"cqld/types"
)

// Batch is the plan of BEGIN BATCH … APPLY BATCH. It is immutable, and shared by all executions of a prepared batch.
// The bind markers of all its statements share one list of values.
type Batch struct {
	kind cql.BatchKind
	// nil means that USING has no TIMESTAMP.
	timestamp term.Term
	// timeout is a duration; nil means that USING has no TIMEOUT.
	timeout term.Term
	// statements is in the order of the text.
	statements []*Modification
}

// Statement is one statement of a batch with its values. Each statement of a BATCH message has its own values; the
// statements of a BATCH in CQL share one list. Both fields are read-only.
type Statement struct {
	Modification *Modification
	Values       []wire.Value
}

// CompileBatch compiles BEGIN BATCH … APPLY BATCH. compile compiles each of its statements. The order of the checks
// determines which of several errors a client gets.
func CompileBatch(c *term.Compiler, stmt *cql.Batch, compile func(cql.Statement) (*Modification, error)) (*Batch,
	error) {
	b := &Batch{kind: stmt.Kind}
	// The grammar accepts USING TTL, which is invalid here.
	if stmt.Using.TTL != nil {
		return nil, invalid.Errorf("Global TTL on the BATCH statement is not supported.")
	}
	if stmt.Using.Timestamp != nil {
		// The spec of this marker names no table, because a batch has none.
		var err error
		r := term.Spec{Name: "[timestamp]", Type: types.Native(types.Bigint)}
		if b.timestamp, err = c.Term(stmt.Using.Timestamp, r); err != nil {
			return nil, err
		}
	}
	for _, s := range stmt.Statements {
		m, err := compile(s)
		if err != nil {
			return nil, err
		}
		// Each statement may have its own timestamp, or the batch has one for all.
		if b.timestamp != nil && m.timestamp != nil {
			return nil, invalid.Errorf("Timestamp must be set either on BATCH or individual statements")
		}
		b.statements = append(b.statements, m)
	}
	if b.timestamp != nil && b.kind == cql.BatchCounter {
		return nil, invalid.Errorf("Cannot provide custom timestamp for counter BATCH")
	}
	// TIMEOUT comes from ScyllaDB (docs/differences.md): its errors come after Cassandra's errors.
	var err error
	if b.timeout, err = execution.CompileTimeout(c, stmt.Using.Timeout); err != nil {
		return nil, err
	}
	// ExecuteStatements repeats both checks, because it also executes BATCH messages, which are not compiled here.
	if err := checkBatchKinds(b.kind, b.statements); err != nil {
		return nil, err
	}
	return b, checkConditionalBatch(b.statements, b.timestamp != nil)
}

// ExecuteBatch executes BEGIN BATCH … APPLY BATCH. It evaluates USING of the batch and leaves the rest to
// ExecuteStatements.
func (writer *Writer) ExecuteBatch(r *request.Request, b *Batch, params *execution.Params) (Outcome, error) {
	statements := make([]Statement, len(b.statements))
	for i, m := range b.statements {
		// All statements refer to the same list by their markers' indexes.
		statements[i] = Statement{m, params.Values}
	}
	// Replace params instead of changing it, because the caller shares it.
	params, err := params.WithTimeout(b.timeout, params.Values)
	if err != nil {
		return Outcome{}, err
	}
	if b.timestamp != nil {
		if err := guardTimestamp(writer.o.DataGuard(r)); err != nil {
			return Outcome{}, err
		}
		v, err := b.timestamp.Eval(&term.Scope{Values: params.Values})
		if err != nil {
			return Outcome{}, err
		}
		// An unset marker in USING TIMESTAMP means a timestamp from the clock. It is generated once, so that all
		// statements have the same timestamp.
		timestamp := writer.o.Timestamps.Next()
		if err := setTimestamp(v, &timestamp); err != nil {
			return Outcome{}, err
		}
		// write_ordering does not change a timestamp from USING (see ordered).
		params = params.WithTimestamp(timestamp, v.Kind != wire.ValueUnset)
	}
	return writer.ExecuteStatements(r, b.kind, statements, params)
}

// ExecuteStatements executes the statements of a batch: it builds one mutation for each partition of each table and
// writes them.
//
// It executes BATCH in CQL and the BATCH message of the protocol, whose statements were prepared or parsed
// separately. A batch with a condition in any statement becomes one conditional change. A counter batch is written
// with the counter protocol. A logged batch over one partition needs no batch log: a mutation is atomic at its
// replica.
func (writer *Writer) ExecuteStatements(r *request.Request, kind cql.BatchKind, statements []Statement,
	params *execution.Params) (Outcome, error) {
	for _, s := range statements {
		if s.Modification.timeout != nil {
			return Outcome{}, invalid.Errorf("Timeout must be set on BATCH, not on its statements")
		}
	}
	if len(statements) == 0 { // of any kind, at any level
		return Outcome{}, nil
	}
	modifications := make([]*Modification, len(statements))
	for i := range statements {
		modifications[i] = statements[i].Modification
	}
	if err := checkBatchKinds(kind, modifications); err != nil {
		return Outcome{}, err
	}
	if err := writer.permitIndexes(r, modifications...); err != nil {
		return Outcome{}, err
	}
	if err := writer.guardWrites(r, modifications...); err != nil {
		return Outcome{}, err
	}
	if slices.ContainsFunc(modifications, (*Modification).conditional) {
		if err := checkConditionalBatch(modifications, false); err != nil {
			return Outcome{}, err
		}
		return writer.executeConditional(r, statements, true, params)
	}
	if err := execution.CheckWriteLevel(r.Consistency); err != nil {
		return Outcome{}, err
	}
	w := writer.writings.Get().(*writing)
	defer writer.putWriting(w)
	timestamp := w.chooseTimestamp(writer, params)
	var c changeSet
	// All statements use the same moment for now() and for the expiry of TTLs.
	ordered, now := false, writer.o.Moment(params)
	for i, s := range statements {
		w.begin(writer, r, params, s.Values, now)
		if err := w.stamp(s.Modification, timestamp); err != nil {
			// The keys of earlier statements are valid, because their mutations were built.
			return Outcome{}, w.keyError(statements[i:], err)
		}
		if err := w.expiry(s.Modification); err != nil {
			return Outcome{}, w.expiryError(statements[i:], err)
		}
		// If any table has write_ordering, the coordinator adjusts the timestamp of the whole batch.
		ordered = ordered || w.ordered(s.Modification.table)
		if err := w.build(s.Modification, func(m *row.Mutation) error {
			return c.Add(s.Modification.table,
				m)
		}); err != nil {
			return Outcome{}, w.keyError(statements[i:], err)
		}
	}
	if len(c.Mutations) == 0 {
		return Outcome{}, nil
	}
	// As in Cassandra, checkBatch only applies to batches over several partitions; checkPartition bounds a single
	// partition.
	if c.Partitions(true) > 1 {
		if err := writer.checkBatch(r, kind, &c); err != nil {
			return Outcome{}, err
		}
	}
	// Count after all checks, so that the statistics contain only executed batches.
	writer.batches[kind].Add(int64(len(c.Mutations)))
	// A batch of one mutation is written without a batch log, so gc_grace_seconds does not matter.
	if len(c.Mutations) > 1 && kind == cql.BatchLogged {
		writer.warnOfGrace(r, &c)
	}
	return Outcome{}, writer.executeBatch(r, kind, &c, params, ordered, timestamp)
}

// executeBatch writes the mutations of a batch. A timeout reports the write type COUNTER, SIMPLE, BATCH or
// UNLOGGED_BATCH.
func (writer *Writer) executeBatch(r *request.Request, kind cql.BatchKind, c *changeSet, params *execution.Params,
	ordered bool, timestamp int64) error {
	timeouts := writer.o.TimeoutsOf(params)
	req := &coordinator.WriteRequest{Mutations: c.Mutations, Consistency: r.Consistency,
		Type: coordinator.WriteUnloggedBatch, Timeout: timeouts.Write, Ordered: ordered, Stamp: timestamp}
	switch {
	// checkBatchKinds ensures that either all tables have counters or none has.
	case isCounterTable(c.Tables[0]):
		req.Type, req.Timeout = coordinator.WriteCounter, timeouts.Counter
	case kind == cql.BatchLogged && len(c.Mutations) == 1:
		req.Type = coordinator.WriteSimple
	case kind == cql.BatchLogged:
		req.Type = coordinator.WriteBatch
	}
	return writer.execute(r, req)
}

// keyError returns the error of the first statement with an invalid partition key, or err if there is none. Cassandra
// evaluates the partition keys of all statements before the statements.
//
// To report errors in that order, keys are evaluated again, but only after an error.
func (w *writing) keyError(statements []Statement, err error) error {
	for _, s := range statements {
		// Skip INSERT JSON, whose keys are in an object that is parsed later.
		if s.Modification.json != nil {
			continue
		}
		w.Scope.Values = s.Values
		if _, invalid := s.Modification.where.PartitionKeys(&w.Scope); invalid != nil {
			return invalid
		}
	}
	return err
}

// expiryError is keyError for an error of USING TTL in the first statement: Cassandra evaluates it after the
// clustering.
func (w *writing) expiryError(statements []Statement, err error) error {
	if invalid := w.keyError(statements, nil); invalid != nil {
		return invalid
	}
	m := statements[0].Modification
	w.Scope.Values = statements[0].Values
	// keyError skips INSERT JSON, whose object was not parsed yet.
	if m.json != nil {
		if invalid := m.json.eval(&w.Scope, w.reserveRead); invalid != nil {
			return invalid
		}
		if _, invalid := m.where.PartitionKeys(&w.Scope); invalid != nil {
			return invalid
		}
	}
	if _, invalid := m.where.Slices(&w.Scope); invalid != nil {
		return invalid
	}
	return err
}

// checkBatch adds a warning for a large batch over several partitions, and refuses a larger one. Sizes are bytes as
// Cassandra counts them (batchSize). An unlogged batch also gets a warning if it covers too many partitions: such a
// batch involves many replicas, without the atomicity of a logged batch.
func (writer *Writer) checkBatch(r *request.Request, kind cql.BatchKind, c *changeSet) error {
	// Tables and Mutations have the same indexes.
	size := 0
	for i, m := range c.Mutations {
		size += batchSize(c.Tables[i], m)
	}
	switch l := &writer.o; {
	case size > l.BatchFailBytes:
		return invalid.Errorf("Batch too large")
	case size > l.BatchWarnBytes:
		r.Warn(fmt.Sprintf("Batch for %s is of size %d, exceeding specified threshold of %d by %d.",
			c.TableNames(), size, l.BatchWarnBytes, size-l.BatchWarnBytes))
	}
	if kind == cql.BatchLogged {
		return nil
	}
	// Cassandra does not count per keyspace here, unlike in the condition for calling checkBatch.
	if n := c.Partitions(false); n > writer.o.BatchPartitions {
		plural := ""
		// TableNames lists each table once, separated by commas.
		if strings.Contains(c.TableNames(), ",") {
			plural = "s"
		}
		r.Warn(fmt.Sprintf("Unlogged batch covering %d partitions detected against table%s %s. "+
			"You should use a logged batch for atomicity, or asynchronous writes for performance.", n, plural,
			c.TableNames()))
	}
	return nil
}

// warnOfGrace adds a warning if a logged batch cannot be replayed because gc_grace_seconds is zero. A batch is never
// replayed later than gc_grace_seconds (package batchlog), because it could resurrect deleted data.
func (writer *Writer) warnOfGrace(r *request.Request, c *changeSet) {
	var without []string
	for _, t := range c.Tables {
		// The same table occurs once for each mutation.
		if n := t.Keyspace + "." + t.Name; t.Options.GCGraceSeconds == 0 && !slices.Contains(without, n) {
			without = append(without, n)
		}
	}
	if len(without) == 0 {
		return
	}
	plural := ""
	if len(without) > 1 {
		plural = "s"
	}
	r.Warn(fmt.Sprintf("Executing a LOGGED BATCH on table%s [%s], configured with a gc_grace_seconds of 0. "+
		"The gc_grace_seconds is used to TTL batchlog entries, so setting gc_grace_seconds too low on tables "+
		"involved in an atomic "+
		"batch might cause batchlog entries to expire before being replayed.", plural, strings.Join(without, ", ")))
}
