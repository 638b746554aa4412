package write

import (
	"bytes"
	"fmt"
	"slices"

	"cqld/coordinator"
	"cqld/internal/uuid"
	"cqld/internal/wire"
	"cqld/query/execution"
	"cqld/query/guardrail"
	"cqld/query/invalid"
	"cqld/query/restriction"
	"cqld/query/rowview"
	"cqld/query/term"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// writing is one execution of a modification. It is reused; its results are copies.
type writing struct {
	operationContext
	writer  *Writer
	request *request.Request
	env     execution.Environment
	params  *execution.Params
	stated  bool // the timestamp was set by USING
	// positions generates the paths of list elements for all statements of a batch. The caller of begin sets it.
	positions uuid.Positions

	key        []byte
	clustering []byte
	values     [][]byte
	row        row.Row
	builder    row.Mutation
	known      func(clustering []byte) *rowview.View // returns the current row, instead of a read
	guard      *guardrail.Guard                      // nil unless guardrails bound the values of cells

	rowBytes, cellBytes int // for the decoded cells of the present row, and at most of one
	readBytes           int // for what a statement has read
	built               int // bytes of the mutations that were passed on
	reserved            int
}

// begin prepares w for one statement with its values.
func (w *writing) begin(writer *Writer, r *request.Request, params *execution.Params, values []wire.Value,
	now execution.Moment) {
	w.writer, w.request, w.params = writer, r, params
	reserved := operationMemory(w)
	if r.Memory == nil {
		reserved = nil
	}
	if w.guard = writer.o.DataGuard(r); !w.guard.BoundsValues() {
		w.guard = nil
	}
	w.env = writer.o.Environment(r, now)
	w.operationContext = operationContext{Scope: term.Scope{Values: values, Env: &w.env}, Positions: &w.positions,
		Millis: now.Millis, Now: now.Seconds, Memory: reserved}
}

// chooseTimestamp returns the timestamp of a statement or batch without its own, and sets the positions of its list
// elements.
func (w *writing) chooseTimestamp(writer *Writer, params *execution.Params) int64 {
	if params.HasTimestamp {
		w.positions = writer.o.IDs.From(writer.o.Timestamps)
		return params.Timestamp
	}
	timestamp := writer.o.Timestamps.Next()
	w.positions = writer.o.IDs.At(timestamp)
	return timestamp
}

// attributes evaluates USING. fallback is the timestamp if the statement has none.
func (w *writing) attributes(m *Modification, fallback int64) error {
	w.Timestamp, w.stated, w.TTL = fallback, w.params.Stated(), m.table.Options.DefaultTTL
	if m.timestamp != nil && w.known == nil { // conditional changes have the ballot's timestamp
		v, err := m.timestamp.Eval(&w.Scope)
		if err != nil {
			return err
		}
		if err := setTimestamp(v, &w.Timestamp); err != nil {
			return err
		}
		w.stated = v.Kind != wire.ValueUnset
	}
	if err := w.checkAhead(m.table); err != nil {
		return err
	}
	if m.ttl == nil {
		return nil
	}
	v, err := m.ttl.Eval(&w.Scope)
	switch {
	case err != nil || v.Kind == wire.ValueUnset:
		return err // the table's default
	case v.Kind == wire.ValueNull || len(v.Bytes) == 0:
		w.TTL = 0
		return nil
	}
	c := wire.NewCursor(v.Bytes)
	ttl := c.Int32()
	switch {
	case ttl < 0:
		return invalid.Errorf("A TTL must be greater or equal to 0, but was %d", ttl)
	case ttl > schema.TTLMax:
		return invalid.Errorf("ttl is too large. requested (%d) maximum (%d)", ttl, schema.TTLMax)
	}
	w.TTL = ttl
	return nil
}

// ordered reports whether the coordinator moves the timestamp after those of the current data.
func (w *writing) ordered(t *schema.Table) bool {
	return t.Options.WriteOrdering != "" && !w.stated && !isCounterTable(t)
}

// checkAhead refuses a timestamp in the far future, or adds a warning: data with it cannot be overwritten before that
// time.
func (w *writing) checkAhead(t *schema.Table) error {
	now, o := w.Millis*1000, &w.writer.o
	switch {
	case o.TimestampAheadMax > 0 && w.Timestamp > now+o.TimestampAheadMax.Microseconds():
		return invalid.Errorf("Guardrail maximum_timestamp violated: The Modification timestamp %d requested for "+
			"table %s.%s lies more than %s ahead of this node's clock (maximum_timestamp_fail_threshold)", w.Timestamp,
			t.Keyspace, t.Name, o.TimestampAheadMax)
	case o.TimestampAheadWarn > 0 && w.Timestamp > now+o.TimestampAheadWarn.Microseconds():
		w.request.Warn(fmt.Sprintf("Guardrail maximum_timestamp violated: The modification timestamp requested for "+
			"table %s.%s lies more "+
			"than %s ahead of this node's clock (maximum_timestamp_warn_threshold): it hides writes until then. "+
			"Timestamps are "+
			"microseconds since 1970.", t.Keyspace, t.Name, o.TimestampAheadWarn))
	}
	return nil
}

func setTimestamp(v wire.Value, to *int64) error {
	if v.Kind == wire.ValueUnset {
		return nil
	}
	if v.Kind == wire.ValueNull || len(v.Bytes) != 8 {
		return invalid.Errorf("Invalid null value of timestamp")
	}
	c := wire.NewCursor(v.Bytes)
	t := c.Int64()
	if t == row.NoTimestamp {
		return invalid.Errorf("Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807]")
	}
	*to = t
	return nil
}

// build builds the mutations of m and passes each to add, which must not keep it.
func (w *writing) build(m *Modification, add func(*row.Mutation) error) error {
	if m.json != nil {
		if err := m.json.eval(&w.Scope, w.reserveRead); err != nil {
			return err
		}
	}
	if err := w.checkKeys(m); err != nil {
		return err
	}
	if m.single {
		return w.buildSingle(m, add)
	}
	keys, err := m.where.PartitionKeys(&w.Scope)
	if err != nil {
		return err
	}
	slices, err := m.where.Slices(&w.Scope)
	switch {
	case err != nil:
	case m.ranges && len(slices) == 0: // as in Cassandra
		return nil
	case m.ranges:
		err = rangesOfColumns()
	default:
		err = restriction.CheckProduct(len(keys), len(slices))
	}
	if err != nil {
		return err
	}
	for _, key := range keys {
		w.builder.Reset(m.table.StorageID, key)
		if err := w.addChanges(m, key, slices); err != nil {
			return err
		}
		if err := w.finish(add); err != nil {
			return err
		}
	}
	return nil
}

// addChanges adds the changes of m to one partition, in the rows of the slices.
func (w *writing) addChanges(m *Modification, key row.PartitionKey, in []row.Slice) error {
	if len(m.static) > 0 {
		if err := w.addStatic(m, key); err != nil {
			return err
		}
	}
	whole := m.where.WholeRows()
	switch {
	case m.kind == restriction.Delete && len(m.regular) == 0 && len(m.static) > 0:
		return nil
	case m.kind == restriction.Delete && len(m.regular) == 0 && !m.where.HasClustering():
		w.addPartitionDeletion()
	case m.kind == restriction.Delete && len(m.regular) == 0 && !whole:
		for _, s := range in {
			w.addRangeTombstone(s)
		}
	case len(m.regular) > 0 || whole && len(m.static) == 0:
		for _, s := range in {
			if err := w.addRow(m, key, s.Start); err != nil {
				return err
			}
			if err := checkPartition(m.table, &w.builder); err != nil {
				return err
			}
			if err := w.hold(); err != nil {
				return err
			}
		}
	}
	return nil
}

// deletion returns the deletion of a row. Within a statement or batch, whose changes have one timestamp, it removes
// what is written to the row, whatever the order of the statements.
func (w *writing) deletion() row.Deletion {
	return row.Deletion{Timestamp: w.Timestamp, LocalTime: w.Now}
}

// wideDeletion returns the deletion of a partition or of a range of rows. In a conditional change its timestamp is
// just before the timestamp of the written cells, as in Cassandra, so that a batch may replace the rows.
func (w *writing) wideDeletion() row.Deletion {
	d := w.deletion()
	if w.known != nil {
		d.Timestamp--
	}
	return d
}

func (w *writing) addPartitionDeletion() {
	w.row.Reset()
	w.row.Deletion = w.wideDeletion()
	w.builder.AddHeader(&w.row)
}

func (w *writing) addRangeTombstone(s row.Slice) {
	end := s.End
	if end == nil {
		end = []byte{0xFF} // after every clustering
	}
	w.builder.AddRangeTombstone(row.RangeTombstone{Start: s.Start, End: end, Deletion: w.wideDeletion()})
}

// buildSingle is build for a statement that selects one row: it builds no lists.
func (w *writing) buildSingle(m *Modification, add func(*row.Mutation) error) error {
	var err error
	if w.key, w.values, err = m.where.SingleKey(&w.Scope, w.key[:0], w.values); err != nil {
		return err
	}
	key := row.PartitionKey{Token: ring.Murmur3(w.key), Bytes: w.key}
	w.builder.Reset(m.table.StorageID, key)
	if len(m.static) > 0 {
		if err := w.addStatic(m, key); err != nil {
			return err
		}
	}
	if !m.where.HasClustering() && len(m.table.Clustering) > 0 {
		if m.kind == restriction.Delete && len(m.static) == 0 {
			w.addPartitionDeletion()
		}
		return w.finish(add)
	}
	if w.clustering, err = m.where.SingleClustering(&w.Scope, w.clustering[:0]); err != nil {
		return err
	}
	switch {
	case m.kind == restriction.Delete && len(m.regular) == 0 && len(m.table.Clustering) == 0 && len(m.static) == 0:
		w.addPartitionDeletion()
	case m.kind == restriction.Delete && len(m.regular) == 0 && len(m.static) > 0:
	default:
		if err := w.addRow(m, key, w.clustering); err != nil {
			return err
		}
	}
	return w.finish(add)
}

func (w *writing) finish(add func(*row.Mutation) error) error {
	if w.builder.Empty() {
		return nil
	}
	if err := w.finished(&w.builder); err != nil {
		return err
	}
	return add(&w.builder)
}

func (w *writing) addStatic(m *Modification, key row.PartitionKey) error {
	if m.reads {
		if err := w.find(m.table, key, nil); err != nil {
			return err
		}
	}
	w.beginRow()
	for _, o := range m.static {
		if err := o.Apply(&w.operationContext, &w.row); err != nil {
			return err
		}
	}
	if w.row.Empty() {
		return nil
	}
	if err := w.checkRow(m, schema.Static); err != nil {
		return err
	}
	if err := w.guardRow(m, key, schema.Static); err != nil {
		return err
	}
	w.row.Sort()
	w.builder.AddHeader(&w.row)
	return nil
}

func (w *writing) addRow(m *Modification, key row.PartitionKey, clustering []byte) error {
	if err := checkClustering(m.table, clustering); err != nil {
		return err
	}
	if m.mandatory != nil {
		return invalid.Errorf("Column %s is mandatory for this COMPACT STORAGE table", m.mandatory.Name)
	}
	if m.reads {
		if err := w.find(m.table, key, clustering); err != nil {
			return err
		}
	}
	w.beginRow()
	w.row.Clustering = clustering
	switch {
	case m.kind == restriction.Insert && m.table.Compact == schema.NotCompact:
		w.row.Liveness = row.Liveness{Timestamp: w.Timestamp}
		if w.TTL > 0 {
			w.row.Liveness.TTL, w.row.Liveness.LocalTime = w.TTL, w.Now+int64(w.TTL)
		}
	case m.kind == restriction.Delete && len(m.regular) == 0:
		w.row.Deletion = w.deletion()
	}
	for _, o := range m.regular {
		if err := o.Apply(&w.operationContext, &w.row); err != nil {
			return err
		}
	}
	if w.row.Empty() {
		return nil
	}
	if err := w.checkRow(m, schema.Regular); err != nil {
		return err
	}
	if err := w.guardRow(m, key, schema.Regular); err != nil {
		return err
	}
	if len(m.regular) > 1 || len(w.row.Cells) > 1 {
		w.row.Sort()
	}
	w.builder.AddRow(&w.row)
	return nil
}

// checkClustering refuses the row with the empty clustering of a compact table with one clustering column. As in
// Cassandra, the row is refused when the change is applied: after the errors of WHERE and USING, and not if a condition
// does not hold.
func checkClustering(t *schema.Table, clustering []byte) error {
	if t.Compact != schema.CompactDense || len(t.Clustering) != 1 {
		return nil
	}
	var buf [1]byte
	col := t.Clustering[0]
	if bytes.Equal(clustering, col.Type.AppendOrdered(buf[:0], []byte{}, col.Desc)) {
		return invalid.Errorf("Invalid empty or null value for column %s", col.Name)
	}
	return nil
}

// find reads the contents of a row, or, with a nil clustering, of the static row.
func (w *writing) find(t *schema.Table, key row.PartitionKey, clustering []byte) error {
	if w.known != nil {
		w.Found = w.known(clustering)
		return nil
	}
	level := w.request.Consistency
	if level == ring.Any {
		return invalid.Errorf("ANY ConsistencyLevel is only supported for writes")
	}
	cmd := &row.ReadCommand{Table: t.StorageID, Key: row.PartitionKey{Token: key.Token, Bytes: slices.Clone(key.Bytes)},
		Now: w.Now, Limits: row.Limits{Rows: 1}, StaticCounts: true}
	if clustering != nil {
		cmd.Slices = []row.Slice{row.ExactRow(clustering)}
	} else {
		cmd.Slices = []row.Slice{row.AllRows()}
	}
	call, err := w.writer.o.Executor.Read(w.request, &coordinator.ReadRequest{Command: cmd, Consistency: level,
		Timeout: w.writer.o.TimeoutsOf(w.params).Read})
	if err != nil {
		return err
	}
	defer call.Release()
	w.request.Cost.Path = string(restriction.AccessPartitionKey)
	w.request.Cost.CountPage(call.Page(), w.Now)
	if err := w.reserveRead(decodedCopies, len(call.Page())); err != nil {
		return err
	}
	v := &rowview.View{}
	v.Reset(t, w.Now)
	var r row.PageReader
	r.Reset(call.Page())
	if r.NextPartition() {
		v.Header = r.Header
		v.Partition(r.Key)
		if r.NextRow(&v.Row) {
			v.Clustering = v.Row.Clustering
			v.Mark(&v.Row)
		}
		v = v.Clone()
	}
	w.Found = v
	return r.Err()
}
