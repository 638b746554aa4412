package entity

import (
	"bytes"
	"slices"

	"cqld/azuretables/odata"
	"cqld/internal/wire"
	"cqld/paxos"
	"cqld/request"
	"cqld/row"
	"cqld/schema"
)

// transaction executes changes of entities of one partition by one CAS. It is reused; its callbacks are created once.
// Its changes are proposed by one CAS, which reads the rows of the operations, checks their conditions, and writes all
// of them or none.
type transaction struct {
	s       *Store
	p       *plan
	ops     []Operation // in the order of the request
	now     int64       // seconds
	changes []change    // in clustering order, after order
	cells   []write     // of all changes in sequence
	arena   []byte      // values
	key     []byte
	cas     *casCall // of the current attempt

	mutation   *row.Mutation // under construction
	reader     row.PageReader
	spare      row.Row // the row read last
	row        row.Row // under construction
	written    []mark  // by property
	generation uint32
	stamps     []int64 // timestamps with which the change was proposed
	failed     *Failed

	onUpdate func(page []byte, timestamp int64) (*row.Mutation, bool, error)
}

// casCall is the request to the coordinator. It is never reused, because replicas that a quorum did not need may read
// it after the response.
type casCall struct {
	req    paxos.CASRequest
	cmd    row.ReadCommand
	slices [1]row.Slice
	keys   []byte // the partition key, and every clustering followed by a zero byte
}

// change is one operation and the state of its entity. Changes are in clustering order. One operation of the
// transaction, with the state of its entity as the CAS has read it.
type change struct {
	op         *Operation
	index      int
	clustering []byte
	from, to   int   // in cells
	size       int   // in bytes, of the new properties and the keys, as the service counts
	found      bool  // the entity exists
	newest     int64 // its timestamp, if it exists
	row        row.Row
	timestamp  int64 // of the entity after the operation
}

// write is the new value of a property. col is the column that the value is written to.
type write struct {
	col   *column
	value []byte
	rest  int16 // ticks of a DateTime
	text  *odata.Value
}

// mark records the column to which a property is written in the row of generation. A mark of another generation means
// that the property is not written in this row.
type mark struct {
	generation uint32
	column     schema.ColumnID
	ticks      bool // the value has ticks
}

// newTransaction returns a transaction for the pool.
func newTransaction(s *Store) *transaction {
	t := &transaction{s: s}
	t.onUpdate = t.update
	return t
}

// arenaMax is the maximum size of the values' memory that an idle transaction keeps; cellsMax is the number of values
// in a hundred entities of twenty properties, 96 KiB.
const (
	arenaMax = 64 << 10
	cellsMax = 2000
)

// release gives up the request's memory. It is called before the transaction is returned to the pool; nothing else may
// refer to it.
func (t *transaction) release() {
	for i := range t.changes {
		t.changes[i].op = nil
	}
	clear(t.cells)
	t.p, t.ops, t.failed, t.cas, t.mutation = nil, nil, nil, nil, nil
	if cap(t.arena) > arenaMax {
		t.arena = nil
	}
	if cap(t.cells) > cellsMax {
		t.cells = nil
	}
}

// prepare builds the command and encodes the values; p must have columns for all of them. The encoded values and the
// keys are valid while the transaction is in use, including its CAS.
func (t *transaction) prepare(r *request.Request, p *plan, ops []Operation) error {
	if p.counters {
		return errCounters(p)
	}
	// The time of the transaction is read once, for its reads and its writes.
	t.p, t.ops, t.now, t.failed = p, ops, t.s.now(), nil
	t.cells, t.arena = t.cells[:0], t.arena[:0]
	if cap(t.changes) < len(ops) {
		t.changes = make([]change, len(ops))
	}
	t.changes = t.changes[:len(ops)]
	if len(t.written) < len(p.properties) {
		t.written, t.generation = make([]mark, len(p.properties)), 0
	}
	// A new request for each attempt, because a replica may still read the previous one.
	a := new(casCall)
	size := len(ops[0].Entity.PartitionKey)
	for i := range ops {
		size += len(ops[i].Entity.RowKey) + clusteringExtra
	}
	// One allocation holds the partition key and the clusterings of all operations.
	a.keys = append(make([]byte, 0, size), ops[0].Entity.PartitionKey...)
	key := a.keys[:len(a.keys):len(a.keys)]
	t.cas = a
	for i := range ops {
		if err := t.prepareChange(i); err != nil {
			return &Failed{Index: i, Err: err}
		}
	}
	if err := t.order(); err != nil {
		return err
	}
	slices := a.slices[:0]
	for i := range t.changes {
		c := t.changes[i].clustering
		// Like ExactRow, but without an allocation: a zero byte follows every clustering. The slices are of the
		// operations, in clustering order, which is the order in which replicas read them.
		slices = append(slices, row.Slice{Start: c[:len(c):len(c)], End: c[:len(c)+1]})
	}
	a.cmd = row.ReadCommand{Table: p.table.StorageID, Key: row.NewPartitionKey(key), Slices: slices, Now: t.now}
	a.req = paxos.CASRequest{Command: &a.cmd, Serial: r.SerialConsistency, Consistency: r.Consistency,
		Contention: t.s.o.Timeouts.CAS, Timeout: t.s.o.Timeouts.Write, Update: t.onUpdate}
	return nil
}

// clusteringExtra is the size of a clustering in addition to the RowKey, which may contain a few zero bytes: a tag, a
// terminator, and the byte that follows it.
const clusteringExtra = 4

// prepareChange checks an operation and encodes its values. It fills in the change and appends its values to cells.
func (t *transaction) prepareChange(i int) error {
	op := &t.ops[i]
	c := &t.changes[i]
	*c = change{op: op, index: i, from: len(t.cells), to: len(t.cells), row: c.row}
	e := &op.Entity
	if err := checkKeys(e.PartitionKey, e.RowKey); err != nil {
		return err
	}
	// Clients send one partition per batch; the server has checked it as well.
	if e.PartitionKey != t.ops[0].Entity.PartitionKey {
		return odata.Of(odata.CommandsInBatchActOnDifferentPartitions)
	}
	// Zero means the table's default.
	if op.TTL < 0 || op.TTL > schema.TTLMax {
		return invalid("A time to live is from 1 to 630720000 seconds.")
	}
	t.key = append(t.key[:0], e.RowKey...)
	keys := t.cas.keys
	at := len(keys)
	keys = append(t.p.appendClustering(keys, t.key), 0)
	c.clustering, t.cas.keys = keys[at:len(keys)-1:len(keys)], keys
	// A delete has only a clustering.
	if op.Kind == Delete {
		return nil
	}
	if len(e.Properties) > t.s.o.Limits.Properties {
		return odata.Of(odata.TooManyProperties)
	}
	c.size = (&odata.Entity{PartitionKey: e.PartitionKey, RowKey: e.RowKey}).EntityBytes()
	// The new values are counted now; settle adds the values that a merge keeps.
	t.nextRow()
	for k := range e.Properties {
		if err := t.prepareProperty(&e.Properties[k]); err != nil {
			return err
		}
		c.size += e.Properties[k].EntityBytes()
	}
	c.to = len(t.cells)
	return t.checkSize(c.size)
}

// checkSize refuses an entity that is larger than the service allows. The size is as the service counts it.
func (t *transaction) checkSize(size int) error {
	if size > t.s.o.Limits.EntityBytes {
		return odata.Of(odata.EntityTooLarge)
	}
	return nil
}

// nextRow starts a row, without any written properties. It is called for every row that is prepared or built.
func (t *transaction) nextRow() {
	if t.generation++; t.generation == 0 {
		clear(t.written)
		t.generation = 1
	}
	// A property whose value is written twice, in two columns, is a duplicate.
}

// prepareProperty encodes a value. The value may be checked only when the row is known (checkSame).
func (t *transaction) prepareProperty(p *odata.Property) error {
	col, _ := t.p.target(p.Name, p.Value.Type)
	if col == nil { // planFor ensures that it exists
		return odata.Of(odata.InternalError)
	}
	m := &t.written[col.prop.index]
	// Two names of the same property, or the same name twice.
	if m.generation == t.generation {
		return odata.Of(odata.DuplicatePropertiesSpecified)
	}
	*m = mark{generation: t.generation, column: col.ID}
	w := write{col: col}
	// Static and multi-cell columns cannot be written by this protocol, but may be sent back unchanged.
	if col.readOnly {
		w.text = &p.Value
		t.cells = append(t.cells, w)
		return nil
	}
	switch p.Value.Type {
	case odata.String, odata.Binary:
		// The bytes need no conversion, and stay the operation's own.
		if k := col.Type; k == cqlType(p.Value.Type) {
			w.value = notNil(p.Value.Bytes)
			t.cells = append(t.cells, w)
			return nil
		}
	case odata.DateTime:
		_, w.rest = splitTicks(p.Value.Int)
	}
	at := len(t.arena)
	var err error
	if t.arena, err = col.appendWire(t.arena, &p.Value); err != nil {
		return err
	}
	w.value = t.arena[at:len(t.arena):len(t.arena)]
	t.cells = append(t.cells, w)
	return nil
}

// order sorts the changes by clustering and refuses two changes of one entity. A transaction has at most one operation
// per entity, as in the service.
func (t *transaction) order() error {
	if len(t.changes) < 2 {
		return nil
	}
	// Clients usually send operations in the order of their keys.
	byRow := func(a, b change) int { return bytes.Compare(a.clustering, b.clustering) }
	if !slices.IsSortedFunc(t.changes, byRow) {
		slices.SortStableFunc(t.changes, byRow)
	}
	first := -1
	for i := 1; i < len(t.changes); i++ {
		if bytes.Equal(t.changes[i-1].clustering, t.changes[i].clustering) &&
			(first < 0 || t.changes[i].index < first) {
			first = t.changes[i].index
			// The error names the first operation of the request that is a duplicate, not the first in the sorted list.
		}
	}
	if first < 0 {
		return nil
	}
	return &Failed{Index: first, Err: odata.Of(odata.InvalidDuplicateRow)}
}

// update is the CAS callback: it returns the mutation for the read page, which may contain other rows, too. It may be
// called more than once, for each attempt of the round, and must not depend on the previous call.
func (t *transaction) update(page []byte, timestamp int64) (*row.Mutation, bool, error) {
	t.failed = nil
	if err := t.read(page); err != nil {
		return nil, false, err
	}
	// The mutation is new each time, because the coordinator keeps the previous one.
	t.mutation = &row.Mutation{Table: t.p.table.StorageID, Key: t.cas.cmd.Key}
	t.mutation.Grow(t.mutationSize())
	for i := range t.changes {
		c := &t.changes[i]
		err := c.check()
		if err == nil {
			err = t.build(c, timestamp)
		}
		// Errors of other operations are kept too: the client gets the first one in its own order.
		if err != nil && (t.failed == nil || c.index < t.failed.Index) {
			t.failed = &Failed{Index: c.index, Err: err}
		}
	}
	// A nil mutation without an error means that nothing is proposed.
	if t.failed != nil {
		return nil, false, nil
	}
	t.stamps = append(t.stamps, timestamp)
	return t.mutation, true, nil
}

// The approximate maximum size of a row and a cell in a mutation in addition to their keys and values: lengths, flags,
// a column id, timestamps.
const (
	rowExtra  = 32
	cellExtra = 8
)

// mutationSize estimates the size of the mutation; it is rarely too small. An estimate that is too small costs another
// allocation.
func (t *transaction) mutationSize() (bytes int) {
	for i := range t.changes {
		c := &t.changes[i]
		bytes += rowExtra + len(c.clustering)
		if c.found {
			bytes += cellExtra * len(c.row.Cells) // they may be deleted
		}
	}
	for i := range t.cells {
		bytes += cellExtra + len(t.cells[i].value)
		if t.cells[i].rest != 0 {
			bytes += cellExtra
		}
	}
	return bytes
}

// read finds the rows of the changes in the page. The page may contain rows of earlier operations, other rows, and
// static columns. It refuses a page that ended before the row of the last change: rows after the page are unknown, and
// a round of Paxos reads one page.
func (t *transaction) read(page []byte) error {
	for i := range t.changes {
		t.changes[i].found = false
	}
	t.reader.Reset(page)
	at := 0
	for t.reader.NextPartition() {
		for at < len(t.changes) && t.reader.NextRow(&t.spare) {
			// Both lists are in clustering order, so each is passed once.
			for at < len(t.changes) && bytes.Compare(t.changes[at].clustering, t.spare.Clustering) < 0 {
				at++
			}
			if at == len(t.changes) || !bytes.Equal(t.changes[at].clustering, t.spare.Clustering) {
				continue
			}
			c := &t.changes[at]
			// The rows are swapped, so that both keep their buffers.
			c.row, t.spare = t.spare, c.row
			if c.newest = t.p.newest(&c.row, t.now); c.newest != row.NoTimestamp {
				c.found = true
			}
			at++
		}
	}
	if err := t.reader.Err(); err != nil || at == len(t.changes) || !t.reader.More() {
		return err
	}
	return invalid("The stored entities that the transaction changes are too large to be read at once. Send fewer " +
		"operations in one transaction.")
}

// check evaluates the operation's conditions. The kinds Insert and Update imply one on the entity's existence;
// If-Match adds one on the Timestamp.
func (c *change) check() error {
	switch c.op.Kind {
	case Insert:
		if c.found {
			return odata.Of(odata.EntityAlreadyExists)
		}
	case Update, Merge, Delete:
		if !c.found {
			return odata.Of(odata.ResourceNotFound)
		}
	}
	if c.op.Conditional {
		// A conditional change of an entity that does not exist fails with the error of a missing entity.
		if !c.found {
			return odata.Of(odata.ResourceNotFound)
		}
		if c.newest*ticksPerMicro != c.op.Match {
			return odata.Of(odata.UpdateConditionNotSatisfied)
		}
	}
	return nil
}

// build adds the change to the mutation. The row is built in memory of the transaction and copied by AddRow.
func (t *transaction) build(c *change, timestamp int64) error {
	c.timestamp = timestamp
	r := &t.row
	r.Reset()
	r.Clustering = c.clustering
	if c.op.Kind == Delete {
		r.Deletion = row.Deletion{Timestamp: timestamp, LocalTime: t.now}
		t.mutation.AddRow(r)
		return nil
	}
	// The time to live is the operation's, or else the table's.
	ttl := c.op.TTL
	if ttl == 0 {
		ttl = t.p.table.Options.DefaultTTL
	}
	t.nextRow()
	if err := t.addCells(c, timestamp, ttl); err != nil {
		return err
	}
	merge := c.op.Kind == Merge || c.op.Kind == InsertOrMerge
	if c.found {
		if err := t.settle(c, timestamp, merge); err != nil {
			return err
		}
	}
	r.Liveness = row.Liveness{Timestamp: timestamp}
	if ttl > 0 {
		r.Liveness.TTL, r.Liveness.LocalTime = ttl, t.now+int64(ttl)
		// Expired data of the row does not keep it.
		if old := &c.row.Liveness; merge && c.found && old.Live(t.now) &&
			(old.TTL == 0 || old.LocalTime > r.Liveness.LocalTime) {
			// An entity that expires later than the new properties keeps its expiry.
			r.Liveness.TTL, r.Liveness.LocalTime = old.TTL, old.LocalTime
		}
	}
	r.Sort()
	t.mutation.AddRow(r)
	return nil
}

// addCells adds the cells of the new values. It also checks the columns that cannot be written.
func (t *transaction) addCells(c *change, timestamp int64, ttl int32) error {
	cell := row.Cell{Timestamp: timestamp}
	if ttl > 0 {
		cell.TTL, cell.LocalTime = ttl, t.now+int64(ttl)
	}
	for i := c.from; i < c.to; i++ {
		w := &t.cells[i]
		// The mark is set even for values that are not written, so that settle keeps their columns.
		t.written[w.col.prop.index] = mark{generation: t.generation, column: w.col.ID, ticks: w.rest != 0}
		if w.text != nil {
			if err := t.checkSame(c, w); err != nil {
				return err
			}
			continue
		}
		cell.Column, cell.Value = w.col.ID, w.value
		t.row.Cells = append(t.row.Cells, cell)
		// The ticks of a DateTime are a separate cell, written with the same timestamp.
		if w.rest != 0 {
			at := len(t.arena)
			t.arena = wire.AppendUint16(t.arena, uint16(w.rest))
			cell.Column, cell.Value = w.col.prop.ticks.ID, t.arena[at:len(t.arena):len(t.arena)]
			t.row.Cells = append(t.row.Cells, cell)
		}
	}
	return nil
}

// checkSame refuses a changed value of a column that this protocol cannot write. It accepts an unchanged value, because
// clients write back what they have read. Other values of such a column are refused, and not ignored.
func (t *transaction) checkSame(c *change, w *write) error {
	var v odata.Value
	var b []byte
	// The static column's value is in the header of the page.
	if w.col.Kind == schema.Static && !w.col.many {
		if cell := t.p.staticCell(&t.reader.Header, w.col.ID, t.now); cell != nil {
			b = notNil(cell.Value)
		}
	} else {
		of := &c.row
		if w.col.Kind == schema.Static {
			of = &t.reader.Header
		}
		// A column of a row that does not exist has no value.
		if of == &t.reader.Header || c.found {
			b, _ = t.p.join(w.col, cellsOf(of, w.col.ID), t.now)
		}
	}
	var arena []byte
	if b != nil && w.col.value(&v, b, &arena) && equal(&v, w.text) {
		return nil
	}
	what := "a static column"
	if w.col.many {
		what = "a column of CQL type " + w.col.Type.String()
	}
	return invalid("Property " + w.col.Name + " is " + what + ", which can only be changed by CQL.")
}

// equal reports whether two values are equal; it compares DateTimes in milliseconds. NaN equals NaN here, because a
// client writes back what it has read.
func equal(a, b *odata.Value) bool {
	if a.Type != b.Type || !bytes.Equal(a.Bytes, b.Bytes) || a.Float != b.Float &&
		(a.Float == a.Float || b.Float == b.Float) {
		return false
	}
	if a.Type == odata.DateTime {
		x, _ := splitTicks(a.Int)
		y, _ := splitTicks(b.Int)
		return x == y
	}
	return a.Int == b.Int
}

// cellsOf returns the cells of one column. The cells of a column are adjacent.
func cellsOf(r *row.Row, id schema.ColumnID) []row.Cell {
	from := slices.IndexFunc(r.Cells, func(c row.Cell) bool { return c.Column == id })
	if from < 0 {
		return nil
	}
	to := from
	for to < len(r.Cells) && r.Cells[to].Column == id {
		to++
	}
	return r.Cells[from:to]
}

// settle deletes existing data that the change replaces: other columns of the written properties and, unless merge is
// set, all other properties. For a merge, it checks the limits on the resulting entity. Data of columns that no
// property shows stays.
func (t *transaction) settle(c *change, timestamp int64, merge bool) error {
	count, total := c.to-c.from, c.size
	for i := 0; i < len(c.row.Cells); i++ {
		cell := &c.row.Cells[i]
		col := t.p.column(cell.Column)
		if col == nil || !cell.Live(t.now) || !t.p.belongs(cell) {
			continue
		}
		m := &t.written[col.prop.index]
		switch {
		// Ticks without their value show nothing, but would keep a replaced entity after its expiry.
		case col.ticks && (merge || m.generation == t.generation && m.ticks):
			continue
		// The column is written with a new value.
		case m.generation == t.generation && m.column == col.ID:
			continue
		case m.generation != t.generation && merge:
			c.timestamp = max(c.timestamp, cell.Timestamp)
			total += len(cell.Path) + col.size(cell.Value)
			if !col.many || i == 0 || c.row.Cells[i-1].Column != cell.Column {
				count++
				total += odata.PropertyBytes(col.prop.name)
			}
		// All cells of a multi-cell column, which one deletion covers.
		case col.many:
			n := len(t.row.Complex)
			if n == 0 || t.row.Complex[n-1].Column != col.ID {
				t.row.Complex = append(t.row.Complex, row.ComplexDeletion{Column: col.ID,
					Deletion: row.Deletion{Timestamp: timestamp, LocalTime: t.now}})
			}
		// Another value of the same property, or of a property that the operation does not name.
		default:
			t.row.Cells = append(t.row.Cells, row.Cell{Column: col.ID, Timestamp: timestamp, LocalTime: t.now,
				Tombstone: true})
		}
	}
	if !merge {
		return nil
	}
	if count > t.s.o.Limits.Properties {
		return odata.Of(odata.TooManyProperties)
	}
	return t.checkSize(total)
}

// size returns the number of bytes that the service counts for a cell's value. It is the value's share of the entity's
// size.
func (c *column) size(b []byte) int { return (&odata.Value{Type: c.shown, Bytes: b}).EntityBytes() }
