package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/meetings"
	"cqld/simulation/pages"
	"cqld/simulation/texttable"
	"cqld/types"
)

// reborn is the workload: clients write rows to a table and read all of it at QUORUM, while an operator truncates the
// table, drops it and creates it again with the same name or restores it, and adds and drops a column. A row that was
// acknowledged well before a completed TRUNCATE, or any time before a DROP, must not be read after it; a row that was
// acknowledged after it must be, and so must all rows of a restored table. Storage keys contain a table's storage id,
// so data of a dropped table cannot reappear in its successor; hints, batches and messages in transit carry the id,
// too.
type reborn struct {
	clients
	rows      []*rebornRow
	truncates []*rebornTruncate
	// retained are the numbers of the rows that succeeded truncations have retained and that are not restored.
	retained []schema.StorageID
	// restored are the numbers whose restoration has begun, perhaps before the truncation was acknowledged.
	restored map[schema.StorageID]bool
	// made is the number of tables created so far.
	made  int
	tried int
	acked int
}

// rebornRow is one row, which is written once. Ticks (call, returned) order the events of clients, and simulated times
// (began, ended) measure them.
type rebornRow struct {
	table    schema.StorageID
	stamp    int64
	call     int64
	began    time.Duration
	returned int64 // 0 until acknowledged
	ended    time.Duration
	// extra means that the row has a value in the column that is added and dropped.
	extra bool
}

// rebornTruncate is one TRUNCATE. began and ended are simulated times, call and returned ticks of order.
type rebornTruncate struct {
	table    schema.StorageID
	call     int64
	returned int64 // 0 until it has succeeded
	failed   bool
	began    time.Duration
	ended    time.Duration
}

const (
	rebornTable      = "reborn"
	rebornColumn     = "extra"
	rebornPartitions = 3
	// The first client is the operator.
	rebornClients = 4
	// truncatedLate is how long after a failed TRUNCATE replicas may still remove rows, because requests may be in
	// transit.
	truncatedLate = 5 * time.Second
	// rebornWindow is how long before a TRUNCATE a write must have been acknowledged to be removed for certain, with
	// faults that deliver messages for which no coordinator waits: messages of processes that have ended or were
	// paused, and those that the network delays or duplicates (docs/limits.md).
	rebornWindow = 2500 * time.Millisecond
)

func newReborn(c *Cluster) *reborn {
	return &reborn{clients: newClients(c, rebornTable), restored: map[schema.StorageID]bool{}}
}

// counts returns all operations, changes of the schema included.
func (w *reborn) counts() (tried, acked int) { return w.tried, w.acked }

// start starts the clients. Client 0 is the operator.
func (w *reborn) start() {
	w.launch(rebornClients, 120*time.Millisecond, func(l *process, client int, end func() bool) {
		// The table as this node knows it: it may have been dropped or replaced already.
		table, next := l.Schema().Table(keyspace, rebornTable), func(error) { end() }
		switch what := w.rand.Intn(100); {
		// One operator, so that its commands do not overlap unless it gave up waiting.
		case client == 0:
			w.operate(l, table, what, next)
		case table == nil:
			end()
		case slices.Contains(w.retained, table.StorageID):
			w.c.fail("reborn: a process uses table %d after a TRUNCATE has succeeded", table.StorageID)
		case what < 60:
			w.write(l, table, next)
		default:
			w.read(l, table, w.rand.Intn(rebornPartitions), ring.Quorum, next)
		}
	})
}

// operate changes the table. The rest of the commands, two thirds, do nothing, so that rows accumulate.
func (w *reborn) operate(l *process, table *schema.Table, what int, done func(error)) {
	// Other workloads drop tables, too.
	retained := slices.DeleteFunc(slices.Clone(l.Schema().Keyspace(keyspace).Retained()),
		func(t *schema.Table) bool { return t.Name != rebornTable })
	switch {
	case table == nil && len(retained) > 0 && what%2 == 0:
		restored := retained[0].StorageID
		w.retained = slices.DeleteFunc(w.retained, func(id schema.StorageID) bool { return id == restored })
		w.restored[restored] = true
		w.change(l, &schema.UndropTable{Keyspace: keyspace, Table: restored, As: rebornTable}, done)
	case table == nil:
		w.create(l, done)
	case what < 20:
		w.truncate(l, table, done)
	case what < 26:
		w.retain(l, table, done)
	case what < 34:
		// Half of the drops can be undone. The grace does not end by itself here.
		w.change(l, &schema.DropTable{Keyspace: keyspace, Table: rebornTable, IfExists: true,
			Retention: []*schema.Retention{nil, {Until: int64(w.tried)}}[what%2]}, done)
	// The column is added if it is missing, and dropped otherwise.
	case what < 40 && table.Column(rebornColumn) == nil:
		w.change(l, &schema.AlterTable{Keyspace: keyspace, Table: rebornTable, AddIfNotExists: true,
			Add: []schema.ColumnSpec{
				{Name: rebornColumn, Kind: schema.Regular, Type: types.Native(types.Text)}}}, done)
	case what < 40:
		w.change(l, &schema.AlterTable{Keyspace: keyspace, Table: rebornTable, DropIfExists: true,
			Drop: []string{rebornColumn}, DropMicros: w.c.order.stamp()}, done)
	case what > 96 && len(retained) > 0:
		gone := map[schema.StorageID]int64{retained[0].StorageID: retained[0].Retention.Until}
		w.change(l, &schema.PurgeTables{Tables: gone}, done)
	default:
		done(nil)
	}
}

// change proposes a change of the schema. An error leaves it unknown whether the change was made; the next look at the
// schema shows it.
func (w *reborn) change(l *process, change schema.Change, done func(error)) {
	w.tried++
	l.Soon(func() {
		met := w.c.meetings.Begin(operationOf(change), 10*operationTimeout)
		l.cluster.StartSchema(change, func(err error) {
			met()
			w.c.kernel.Trace(fmt.Sprintf("reborn %T %v", change, err))
			if err == nil {
				w.acked++
				w.c.count(fmt.Sprintf("%T", change))
			}
			done(err)
		})
	})
}

// operationOf returns the operation of docs/MEETINGS.md of a change.
func operationOf(change schema.Change) string {
	switch change.(type) {
	case *schema.UndropTable:
		return meetings.Undrop
	case *schema.PurgeTables:
		return meetings.Purge
	case *schema.TruncateTable:
		return meetings.Truncate
	}
	return meetings.SchemaChange
}

// retain truncates the table by a change of the schema, which retains the rows. No process may use the former number
// after it has succeeded. UNDROP TABLE restores the rows after a drop.
func (w *reborn) retain(l *process, table *schema.Table, done func(error)) {
	w.tried++
	w.made++
	w.restored[table.StorageID] = false
	c := &schema.TruncateTable{Keyspace: keyspace, Table: rebornTable, Rows: table.StorageID,
		Retention: schema.Retention{Until: int64(w.tried)}}
	copy(c.Kept[:], fmt.Sprintf("reborn%010d", w.made))
	l.Soon(func() {
		met := w.c.meetings.Begin(meetings.Truncate, 10*operationTimeout)
		l.cluster.StartSchema(c, func(err error) {
			met()
			w.c.kernel.Trace(fmt.Sprint("reborn truncation retained ", err))
			if err == nil {
				w.acked++
				w.c.count("truncations retained")
				if !w.restored[table.StorageID] {
					w.retained = append(w.retained, table.StorageID)
				}
			}
			done(err)
		})
	})
}

// create creates the table with a new ID.
func (w *reborn) create(l *process, done func(error)) {
	w.made++
	t := texttable.New(rebornTable)
	// Every creation has a new ID, so a write to a former table cannot reach its successor.
	copy(t.ID[:], fmt.Sprintf("reborn%010d", w.made))
	t.IfNotExists = true
	w.change(l, t, done)
}

// truncate truncates the table, and records when. A failed TRUNCATE may have removed rows on some replicas.
func (w *reborn) truncate(l *process, table *schema.Table, done func(error)) {
	w.tried++
	t := &rebornTruncate{table: table.StorageID, call: w.c.order.tick(), began: w.c.kernel.Now()}
	w.truncates = append(w.truncates, t)
	w.c.truncating++
	// Replicas may apply writes that overlap with the TRUNCATE after it, and the hints for the others are void.
	w.c.verify.excused.truncated(table.StorageID)
	// It is not ended: its messages may be in transit after its answer.
	w.c.meetings.Begin(meetings.Truncate, meetings.Lingers)
	l.coord.Truncate(table, operationTimeout, func(err error) {
		w.c.kernel.Trace(fmt.Sprint("truncate ", err))
		t.ended = w.c.kernel.Now()
		if err == nil {
			w.acked++
			t.returned = w.c.order.tick()
			w.c.truncating--
			w.c.count("tables truncated")
		} else {
			t.failed = true
		}
		done(err)
	})
}

// key returns the partition of rows with an index; rows are distributed by their index modulo rebornPartitions.
func (w *reborn) key(partition int) row.PartitionKey {
	return row.NewPartitionKey([]byte("reborn" + strconv.Itoa(partition)))
}

// write writes a new row; its clustering is its index in rows. With LoggedRows, the copies in batch logs may be
// replayed after a TRUNCATE, whose marks must void them.
func (w *reborn) write(l *process, table *schema.Table, done func(error)) {
	w.tried++
	e := &rebornRow{table: table.StorageID, stamp: w.c.order.stamp(), call: w.c.order.tick(), began: w.c.kernel.Now()}
	id := len(w.rows)
	w.rows = append(w.rows, e)
	r := texttable.Row(table, fmt.Sprintf("%06d", id), "x", e.stamp)
	if c := table.Column(rebornColumn); c != nil {
		e.extra = true
		r.Cells = append(r.Cells, row.Cell{Column: c.ID, Timestamp: e.stamp, Value: []byte("y")})
		// Cells must be in the order of their columns.
		r.Sort()
	}
	m := new(row.Mutation)
	m.Reset(table.StorageID, w.key(id%rebornPartitions))
	m.AddRow(r)
	ended := func(err error) {
		w.c.kernel.Trace(fmt.Sprint("reborn write ", id, err))
		if err == nil {
			w.acked++
			e.returned, e.ended = w.c.order.tick(), w.c.kernel.Now()
		}
		done(err)
	}
	if !w.c.options.LoggedRows {
		l.write(m, ring.Quorum, ended)
		return
	}
	// A batch of one partition would not be logged.
	// The second partition is never read.
	other := texttable.Change(table, row.NewPartitionKey([]byte("reborn beside")), fmt.Sprint(id), "x", e.stamp)
	l.parts.Batches.Write(&coordinator.WriteRequest{Mutations: []*row.Mutation{m, other}, Consistency: ring.Quorum,
		Type:    coordinator.WriteBatch,
		Timeout: operationTimeout}, ended)
}

// read reads a partition page by page, and checks its rows. table may be outdated: the read then fails, or sees the
// former table.
func (w *reborn) read(l *process, table *schema.Table, partition int, level ring.Consistency, done func(error)) {
	w.tried++
	call, found := w.c.order.tick(), map[int]bool{}
	key := w.key(partition)
	p := &pages.Reader{Table: table.StorageID, Only: &key}
	// All pages are read as of one time.
	now := clock{l}.Now().Unix()
	// Pages are read one after the other, by the coordinator of the first one.
	var next func()
	next = func() {
		l.coord.Read(&coordinator.ReadRequest{Command: p.Command(now), Consistency: level, Timeout: operationTimeout},
			func(page []byte, err error) {
				if err == nil {
					err = w.collect(table, page, now, found)
				}
				if err == nil {
					err = p.Took(page, func(*row.PageReader, *row.Row, bool) {})
				}
				w.c.kernel.Trace(fmt.Sprint("reborn read ", len(found), err))
				switch {
				case err != nil:
					done(err)
				case !p.Done():
					next()
				default:
					w.acked++
					w.judge(table.StorageID, partition, found, call)
					done(nil)
				}
			})
	}
	next()
}

// collect adds the rows of a page, and checks the added and dropped column: hidden cells do not count.
func (w *reborn) collect(table *schema.Table, page []byte, now int64, found map[int]bool) error {
	rows, err := texttable.Rows(page, now)
	if err != nil {
		return err
	}
	for _, r := range rows {
		id, err := strconv.Atoi(r[0])
		if err != nil {
			return err
		}
		found[id] = true
	}
	column := table.Column(rebornColumn)
	var p row.PageReader
	var r row.Row
	for p.Reset(page); p.NextPartition(); {
		for p.NextRow(&r) {
			id, err := strconv.Atoi(string(r.Clustering))
			if err != nil {
				return err
			}
			// A column that was dropped and added again hides the cells from before the DROP: their timestamps are not
			// later than DroppedMicros.
			shown := slices.ContainsFunc(r.Cells, func(c row.Cell) bool {
				return column != nil && c.Column == column.ID && c.Timestamp > column.DroppedMicros
			})
			if shown && !w.rows[id].extra {
				w.c.fail("reborn: row %d shows a value in a column that it was never given: %+v", id, *w.rows[id])
			}
		}
	}
	return p.Err()
}

// judge compares the rows of a read with those that were written. The three violations are: a row of a former table, a
// row that was truncated, and a row that is missing.
func (w *reborn) judge(table schema.StorageID, partition int, found map[int]bool, call int64) {
	returned := w.c.order.tick()
	// The partition of a row follows from its index.
	for id := partition; id < len(w.rows); id += rebornPartitions {
		e := w.rows[id]
		switch {
		case found[id] && e.table != table:
			w.c.fail("reborn: row %d was written to table %d, and is in table %d, which has its name now", id, e.table,
				table)
		case found[id] && w.gone(e, call):
			w.c.fail("reborn: row %d was resurrected: it was acknowledged before a TRUNCATE that ended before %d: %+v",
				id, call, *e)
		case !found[id] && e.table == table && e.returned != 0 && e.returned < call && !w.mayBeTruncated(e, returned):
			w.c.fail("reborn: row %d is missing, and nothing was truncated since: %+v, read from %d to %d", id, *e,
				call, returned)
		}
	}
}

// window returns how long before a TRUNCATE a write must have been acknowledged to be removed for certain: zero if the
// coordinators know of all messages in transit.
func (w *reborn) window() time.Duration {
	late := func(kind string) bool {
		return slices.Contains([]string{"pause", "bad-links", "slow-links", "reorder", "dc-slow"}, kind)
	}
	if w.c.crashed == 0 && !slices.ContainsFunc(w.c.options.FaultKinds, late) && !w.c.options.at("early-timeout") {
		return 0
	}
	return rebornWindow
}

// gone reports whether a row was acknowledged, window before the begin of a TRUNCATE that ended before a read. Rows
// that were acknowledged within the window are allowed either way.
func (w *reborn) gone(e *rebornRow, call int64) bool {
	return slices.ContainsFunc(w.truncates, func(t *rebornTruncate) bool {
		return t.table == e.table && t.returned != 0 && t.returned < call && e.returned != 0 && e.returned < t.call &&
			t.began-e.ended >= w.window()
	})
}

// mayBeTruncated reports whether a TRUNCATE may have removed a row: one that ended after the row's write began, or
// failed and may continue.
func (w *reborn) mayBeTruncated(e *rebornRow, returned int64) bool {
	return slices.ContainsFunc(w.truncates, func(t *rebornTruncate) bool {
		switch {
		case t.table != e.table || t.call > returned:
			return false
		case t.returned != 0:
			return t.returned > e.call
		}
		// A TRUNCATE in progress may remove any row.
		return !t.failed || e.began < t.ended+truncatedLate
	})
}

// readBack reads all rows at QUORUM from every node, and at ALL from one. The table may not exist at the end.
func (w *reborn) readBack() {
	table := w.c.table(rebornTable)
	if table == nil {
		return
	}
	for partition := range rebornPartitions {
		w.c.everywhere(fmt.Sprint("reborn ", partition),
			func(l *process, done func(error)) { w.read(l, table, partition, ring.Quorum, done) })
		w.c.must(w.c.present()[0], fmt.Sprint("reborn ", partition),
			func(l *process, done func(error)) { w.read(l, table, partition, ring.All, done) })
	}
}

// check does nothing: every read is checked when it ends.
func (w *reborn) check() {}
