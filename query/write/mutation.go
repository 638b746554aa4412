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

// writing is one execution of a modification, or of the statements of a batch one after the other. It is pooled: its
// buffers are reused, and its results are copies. It is not safe for concurrent use.
type writing struct {
	operationContext
	writer *Writer
	// request receives warnings, and accounts for the memory of the changes.
	request *request.Request
	env     execution.Environment
	params  *execution.Params
	stated  bool // USING of the statement or its batch has set the timestamp
	// positions generates the paths of list elements for all statements of a batch. The caller of begin sets it.
	positions uuid.Positions

	// Buffers for the key and clustering of the current row, and for the values of a key.
	key        []byte
	clustering []byte
	values     [][]byte
	// row is the current row. Its cells point into values of the statement; builder copies them.
	row row.Row
	// builder is the mutation of the current partition.
	builder row.Mutation
	known   func(clustering []byte) *rowview.View // if set, returns the current row instead of a read
	guard   *guardrail.Guard                      // nil unless guardrails bound the values of cells

	// Memory in bytes (memory.go).
	rowBytes, cellBytes int // decoded cells of the current row, and of the largest row
	readBytes           int // rows that a statement has read
	built               int // mutations passed to add
	// reserved is the memory that the request has reserved for this writing.
	reserved int
}

// begin prepares w for one statement with its values. It replaces the context of the previous statement and keeps the
// buffers. The caller sets known and positions if they differ between statements.
func (w *writing) begin(writer *Writer, r *request.Request, params *execution.Params, values []wire.Value,
	now execution.Moment) {
	w.writer, w.request, w.params = writer, r, params
	reserved := operationMemory(w)
	// nil means that the request has no bound (operationContext.Memory).
	if r.Memory == nil {
		reserved = nil
	}
	// Most configurations have no such guardrail; rows are then not measured.
	if w.guard = writer.o.DataGuard(r); !w.guard.BoundsValues() {
		w.guard = nil
	}
	// The scope refers to w.env, which lives as long as the writing.
	w.env = writer.o.Environment(r, now)
	w.operationContext = operationContext{Scope: term.Scope{Values: values, Env: &w.env}, Positions: &w.positions,
		Millis: now.Millis, Now: now.Seconds, Memory: reserved}
}

// chooseTimestamp returns the timestamp, in µs, of a statement or batch without its own, and sets the positions of its
// list elements.
func (w *writing) chooseTimestamp(writer *Writer, params *execution.Params) int64 {
	if params.HasTimestamp {
		// Many requests may have the same client timestamp, so generate positions from the node's clock to keep list
		// elements distinct.
		w.positions = writer.o.IDs.From(writer.o.Timestamps)
		return params.Timestamp
	}
	timestamp := writer.o.Timestamps.Next()
	w.positions = writer.o.IDs.At(timestamp)
	return timestamp
}

// stamp evaluates USING TIMESTAMP. fallback is the timestamp in µs if the statement has none. It sets Timestamp and
// stated of the present statement, and leaves later statements to their own call.
func (w *writing) stamp(m *Modification, fallback int64) error {
	w.Timestamp, w.stated = fallback, w.params.Stated()
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
	// Check the fallback as well, because it may come from the request.
	return w.checkAhead(m.table)
}

// expiry evaluates USING TTL, and sets TTL of the present statement. As in Cassandra, its errors come after errors of
// keys, unlike the errors of USING TIMESTAMP: see expiryError.
func (w *writing) expiry(m *Modification) error {
	w.TTL = m.table.Options.DefaultTTL
	if m.ttl == nil {
		return nil
	}
	v, err := m.ttl.Eval(&w.Scope)
	switch {
	case err != nil || v.Kind == wire.ValueUnset:
		return err // the table's default
	// As in Cassandra, null means no expiry, unlike an unset value.
	case v.Kind == wire.ValueNull || len(v.Bytes) == 0:
		w.TTL = 0
		return nil
	}
	// The value has been validated as an int, so that it has 4 bytes.
	c := wire.NewCursor(v.Bytes)
	ttl := c.Int32()
	switch {
	case ttl < 0:
		return invalid.Errorf("A TTL must be greater or equal to 0, but was %d", ttl)
	case ttl > schema.TTLMax:
		return invalid.Errorf("ttl is too large. requested (%d) maximum (%d)", ttl, schema.TTLMax)
	}
	// A TTL of 0 overrides the table's default: the cells do not expire.
	w.TTL = ttl
	return nil
}

// ordered reports whether the coordinator adjusts the timestamp to be later than the timestamps of the current data
// (option write_ordering). It does not for a timestamp from USING or for counters.
func (w *writing) ordered(t *schema.Table) bool {
	return t.Options.WriteOrdering != "" && !w.stated && !isCounterTable(t)
}

// checkAhead rejects a timestamp too far in the future, or adds a warning, because data with it cannot be overwritten
// before that time. The bounds are relative to this node's clock; zero means no bound.
func (w *writing) checkAhead(t *schema.Table) error {
	// In µs, like timestamps.
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

// setTimestamp sets *to to the value of USING TIMESTAMP, in µs. An unset value does not change it. Negative
// timestamps are valid.
func setTimestamp(v wire.Value, to *int64) error {
	if v.Kind == wire.ValueUnset {
		return nil
	}
	if v.Kind == wire.ValueNull || len(v.Bytes) != 8 {
		return invalid.Errorf("Invalid null value of timestamp")
	}
	c := wire.NewCursor(v.Bytes)
	t := c.Int64()
	// As in Cassandra, the minimum int64 means that there is no timestamp.
	if t == row.NoTimestamp {
		return invalid.Errorf("Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807]")
	}
	*to = t
	return nil
}

// build builds the mutations of m and passes each to add, which must not keep it. There is one for each partition,
// unless the partition does not change. If add fails, build stops with its error.
func (w *writing) build(m *Modification, add func(*row.Mutation) error) error {
	// Parse the object first, because it contains the key.
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
	// An empty range deletes nothing, so it is valid.
	case m.ranges && len(slices) == 0: // as in Cassandra
		return nil
	case m.ranges:
		err = rangesOfColumns()
	default:
		// Bound the product of IN lists before anything is built.
		err = restriction.CheckProduct(len(keys), len(slices))
	}
	if err != nil {
		return err
	}
	// All partitions have the same slices.
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

// addChanges adds the changes of m to one partition, in the rows of the slices. It changes the static row once for
// each partition, regardless of the clusterings.
func (w *writing) addChanges(m *Modification, key row.PartitionKey, in []row.Slice) error {
	if len(m.static) > 0 {
		if err := w.addStatic(m, key); err != nil {
			return err
		}
	}
	whole := m.where.WholeRows()
	switch {
	// A DELETE of static columns changes no row, even if WHERE restricts the clustering.
	case m.kind == restriction.Delete && len(m.regular) == 0 && len(m.static) > 0:
		return nil
	case m.kind == restriction.Delete && len(m.regular) == 0 && !m.where.HasClustering():
		w.addPartitionDeletion()
	case m.kind == restriction.Delete && len(m.regular) == 0 && !whole:
		for _, s := range in {
			w.addRangeTombstone(s)
		}
	// Slices are exact rows here: of an UPDATE or INSERT, or of a DELETE whose clustering is complete.
	case len(m.regular) > 0 || whole && len(m.static) == 0:
		for _, s := range in {
			if err := w.addRow(m, key, s.Start); err != nil {
				return err
			}
			// Check after each row, so that an IN with large values stops early.
			if err := checkPartition(m.table, &w.builder, 0); err != nil {
				return err
			}
			if err := w.hold(0); err != nil {
				return err
			}
		}
	}
	return nil
}

// deletion returns the deletion of a row. All changes of a statement or batch have the same timestamp, at which a
// deletion wins: it also removes cells that the batch writes to the row, in any order of its statements.
func (w *writing) deletion() row.Deletion {
	return row.Deletion{Timestamp: w.Timestamp, LocalTime: w.Now}
}

// wideDeletion returns the deletion of a partition or of a range of rows. As in Cassandra, its timestamp in a
// conditional change is one less than the timestamp of written cells, so that a batch can replace the rows. The
// proposer reserves both timestamps for the change (paxos.CASRequest).
func (w *writing) wideDeletion() row.Deletion {
	d := w.deletion()
	if w.known != nil {
		d.Timestamp--
	}
	return d
}

// addPartitionDeletion adds the deletion of the partition with its static row.
func (w *writing) addPartitionDeletion() {
	w.row.Reset()
	w.row.Deletion = w.wideDeletion()
	w.builder.AddHeader(&w.row)
}

// addRangeTombstone adds the deletion of the rows in s. Its start may be empty, which is before every clustering.
func (w *writing) addRangeTombstone(s row.Slice) {
	end := s.End
	if end == nil {
		end = []byte{0xFF} // after every clustering
	}
	w.builder.AddRangeTombstone(row.RangeTombstone{Start: s.Start, End: end, Deletion: w.wideDeletion()})
}

// buildSingle is build for a statement that selects one row: it builds no lists, and reuses the writing's buffers for
// the key and clustering. Most writes are of this kind.
func (w *writing) buildSingle(m *Modification, add func(*row.Mutation) error) error {
	// Store the buffers in w even after an error, so that the next statement reuses them.
	var err error
	if w.key, w.values, err = m.where.SingleKey(&w.Scope, w.key[:0], w.values); err != nil {
		return err
	}
	// The key points into w.key until the next statement.
	key := row.PartitionKey{Token: ring.Murmur3(w.key), Bytes: w.key}
	w.builder.Reset(m.table.StorageID, key)
	if len(m.static) > 0 {
		if err := w.addStatic(m, key); err != nil {
			return err
		}
	}
	// Without a clustering, the statement changes static columns or deletes the partition.
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
	// In a table without clustering columns the partition is the row. Its deletion is the partition's.
	case m.kind == restriction.Delete && len(m.regular) == 0 && len(m.table.Clustering) == 0 && len(m.static) == 0:
		w.addPartitionDeletion()
	// The statement deletes static columns, with a clustering in WHERE.
	case m.kind == restriction.Delete && len(m.regular) == 0 && len(m.static) > 0:
	default:
		if err := w.addRow(m, key, w.clustering); err != nil {
			return err
		}
	}
	return w.finish(add)
}

// finish passes the mutation to add, unless it changes nothing.
func (w *writing) finish(add func(*row.Mutation) error) error {
	if w.builder.Empty() {
		return nil
	}
	if err := w.finished(&w.builder); err != nil {
		return err
	}
	return add(&w.builder)
}

// addStatic adds the changes of static columns. It checks constraints and guardrails after all operations.
func (w *writing) addStatic(m *Modification, key row.PartitionKey) error {
	// m.reads may be true only because of a regular column; the read is then superfluous.
	if m.reads {
		if err := w.find(m.table, key, nil); err != nil {
			return err
		}
	}
	// beginRow resets the row of a previous partition.
	w.beginRow()
	size, err := w.apply(m.table, m.static)
	if err != nil {
		return err
	}
	// All values were unset, so there is no change.
	if w.row.Empty() {
		return nil
	}
	if err := w.checkRow(m, schema.Static); err != nil {
		return err
	}
	if err := w.guardRow(m, key, schema.Static); err != nil {
		return err
	}
	if err := w.hold(size); err != nil {
		return err
	}
	// Encoded rows need sorted cells.
	w.row.Sort()
	w.builder.AddHeader(&w.row)
	return nil
}

// apply applies operations to the current row. It returns the size in bytes of the paths and values of their cells,
// and fails as soon as the partition would be too large, because a statement may have thousands of operations, each
// with a value as large as the request.
func (w *writing) apply(t *schema.Table, operations []operation) (size int, err error) {
	for _, o := range operations {
		from := len(w.row.Cells)
		if err := o.Apply(&w.operationContext, &w.row); err != nil {
			return 0, err
		}
		for i := from; i < len(w.row.Cells); i++ {
			c := &w.row.Cells[i]
			size += len(c.Path) + len(c.Value)
		}
		if err := checkPartition(t, &w.builder, size); err != nil {
			return 0, err
		}
	}
	return size, nil
}

// addRow adds the changes of one row. clustering is encoded, and complete. The row is checked after its operations, and
// added even if it only has a marker.
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
	// At most one of marker and deletion is set: INSERT, UPDATE and DELETE have different effects on the row itself.
	switch {
	// An INSERT writes a marker, so the row exists even without values. An UPDATE does not, and a row of a compact
	// table exists only while it has a value.
	case m.kind == restriction.Insert && m.table.Compact == schema.NotCompact:
		w.row.Liveness = row.Liveness{Timestamp: w.Timestamp}
		if w.TTL > 0 {
			// Seconds since 1970, like Now.
			w.row.Liveness.TTL, w.row.Liveness.LocalTime = w.TTL, w.Now+int64(w.TTL)
		}
	// A DELETE without columns deletes the row and has no operations.
	case m.kind == restriction.Delete && len(m.regular) == 0:
		w.row.Deletion = w.deletion()
	}
	size, err := w.apply(m.table, m.regular)
	if err != nil {
		return err
	}
	// For example an UPDATE with unset values.
	if w.row.Empty() {
		return nil
	}
	if err := w.checkRow(m, schema.Regular); err != nil {
		return err
	}
	if err := w.guardRow(m, key, schema.Regular); err != nil {
		return err
	}
	if err := w.hold(size); err != nil {
		return err
	}
	// Encoded rows need sorted cells.
	if len(m.regular) > 1 || len(w.row.Cells) > 1 {
		w.row.Sort()
	}
	w.builder.AddRow(&w.row)
	return nil
}

// checkClustering refuses the row with the empty clustering of a compact table with one clustering column. As in
// Cassandra, it is an error only when the change is applied: after errors in WHERE and USING, and not if a condition
// does not hold. Other tables may have empty values of types that permit them.
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

// find reads the contents of a row, or, with a nil clustering, of the static row, into w.Found. The row is empty if
// it does not exist. The read is not atomic with the write, as in Cassandra: two concurrent updates by index may both
// find the same element. A conditional change reads within its Paxos round.
func (w *writing) find(t *schema.Table, key row.PartitionKey, clustering []byte) error {
	if w.known != nil {
		w.Found = w.known(clustering)
		return nil
	}
	// Read at the level of the write: at QUORUM, the read sees all writes acknowledged at QUORUM.
	level := w.request.Consistency
	if level == ring.Any {
		return invalid.Errorf("ANY ConsistencyLevel is only supported for writes")
	}
	// The command keeps the key, whose buffer the writing reuses.
	cmd := &row.ReadCommand{Table: t.StorageID, Key: row.PartitionKey{Token: key.Token, Bytes: slices.Clone(key.Bytes)},
		Now: w.Now, Limits: row.Limits{Rows: 1}, StaticCounts: true}
	if clustering != nil {
		cmd.Slices = []row.Slice{row.ExactRow(clustering)}
	} else {
		// A page contains the static row with any row, so read the first row.
		cmd.Slices = []row.Slice{row.AllRows()}
	}
	call, err := w.writer.o.Executor.Read(w.request, &coordinator.ReadRequest{Command: cmd, Consistency: level,
		Timeout: w.writer.o.TimeoutsOf(w.params).Read})
	if err != nil {
		return err
	}
	defer call.Release()
	// The cost of the request includes this read.
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
		// The page is released at the end; the view must not point into it.
		v = v.Clone()
	}
	w.Found = v
	return r.Err()
}
