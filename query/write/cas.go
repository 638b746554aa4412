package write

import (
	"bytes"
	"slices"

	"cqld/internal/wire"
	"cqld/paxos"
	"cqld/query/execution"
	"cqld/query/invalid"
	"cqld/query/mask"
	"cqld/query/restriction"
	"cqld/query/rowview"
	"cqld/query/term"
	"cqld/request"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// cas is one execution of conditional statements on one partition.
//
// Package paxos calls update one or more times in its own goroutines, each time with newer rows. result is called
// after the last update. read replaces all state that depends on a page.
type cas struct {
	writer *Writer
	// reserve has reserved memory from request before the proposal.
	request *request.Request
	params  *execution.Params
	// All statements have the same table and the same partition.
	table *schema.Table
	key   row.PartitionKey
	// now is fixed when the request begins, so that all evaluations see the same expired cells.
	now        execution.Moment
	statements []Statement
	// batch means that the result includes the key columns, because conditions may be on several rows.
	batch bool
	// nil means that the client sees all values.
	masks *mask.Table // for the rows of the result

	rows []casRow // rows with conditions, by clustering
	// index maps clusterings to positions in rows, if there are more than rowsSearched.
	index map[string]int
	// static contains the conditions on static columns, or on the existence of the static row.
	static casRow
	reads  [][]byte // clusterings of further rows that operations read; nil means the static row
	// shown are the columns of the result if a condition does not hold. all means every column.
	shown columnSet
	all   bool
	// allStatic and allRegular determine whether static and regular columns without a condition count. As in
	// Cassandra, a column without a condition is shown as null unless a statement changes such columns.
	allStatic, allRegular bool
	askedStatic           bool // a statement with a condition changes static columns, or has a condition on some

	found  map[string]*rowview.View // rows of the current page, by clustering
	header *rowview.View            // a view of the static row only
}

// casRow contains the conditions on one row: exists, notExists or conditions on columns, never two of them.
type casRow struct {
	clustering []byte
	// exists and notExists come from IF EXISTS and IF NOT EXISTS.
	exists, notExists bool
	// All must hold.
	columns []boundCondition
}

// executeConditional executes statements, at least one with a condition. Either all statements are applied, including
// those without conditions, or none. batch means that they come from a batch, even of one statement. The outcome has
// one row with [applied] = true or, if a condition does not hold, [applied] = false and the current values of the
// rows with conditions.
func (writer *Writer) executeConditional(r *request.Request, statements []Statement, batch bool,
	params *execution.Params) (Outcome, error) {
	// The caller has checked that all tables are the same (checkConditionalBatch).
	x := &cas{writer: writer, request: r, params: params, now: writer.o.Moment(params), statements: statements,
		batch: batch, table: statements[0].Modification.table}
	for _, st := range statements {
		if !st.Modification.conditional() {
			continue
		}
		// Check permissions before the proposal, because the result may reveal values.
		masks, err := writer.o.Masks(r, st.Modification.conditions.masking)
		if err != nil {
			return Outcome{}, err
		}
		x.masks = masks // all statements are on one table
	}
	// Memory is reserved here, because the evaluation in package paxos must not wait for it.
	if err := x.reserve(); err != nil {
		return Outcome{}, err
	}
	if err := x.prepare(); err != nil {
		return Outcome{}, err
	}
	// As in Cassandra, errors of keys and conditions (prepare) come before errors of consistency levels.
	if err := execution.CheckConditionalLevels(x.table, r.Consistency, r.SerialConsistency); err != nil {
		return Outcome{}, err
	}
	// The read of a conditional change finds its rows by key.
	r.Cost.Path = string(restriction.AccessPartitionKey)
	timeouts := writer.o.TimeoutsOf(params)
	req := &paxos.CASRequest{
		// Contention bounds the wait for competing proposals, and Timeout bounds the other phases.
		Command: x.command(), Serial: r.SerialConsistency, Consistency: r.Consistency,
		Contention: timeouts.CAS, Timeout: timeouts.Write, Update: x.update,
	}
	applied, call, err := writer.o.Executor.CAS(r, req)
	if err != nil {
		return Outcome{}, err
	}
	// Release returns the page with the current values.
	defer call.Release()
	return x.result(applied, call.Page())
}

// prepare determines the partition, and the conditions on each row. It evaluates keys and the values of conditions
// once; each Paxos round evaluates only the operations. Errors are in Cassandra's order: by statement, and lists and
// keys before conditions.
func (x *cas) prepare() error {
	s := &term.Scope{Env: x.environment()}
	// The scope is shared: eval replaces its JSON values for each statement.
	for i, st := range x.statements {
		s.Values = st.Values
		if st.Modification.json != nil {
			// This needs no reservation, because reserve counts the text.
			if err := st.Modification.json.eval(s, nil); err != nil {
				return err
			}
		}
		if err := x.checkLists(st.Modification); err != nil {
			return err
		}
		keys, err := st.Modification.where.PartitionKeys(s)
		if err != nil {
			return err
		}
		// Copy the key, whose bytes point into the memory of the statement's evaluation.
		if i == 0 {
			x.key = row.PartitionKey{Token: keys[0].Token, Bytes: bytes.Clone(keys[0].Bytes)}
		} else if st.Modification.table != x.table || !bytes.Equal(keys[0].Bytes, x.key.Bytes) {
			// The tables of a batch were compared before (checkConditionalBatch); the partitions are known only now.
			return invalid.Errorf("Batch with conditions cannot span multiple partitions")
		}
		// Which columns count depends on all statements together (see the fields).
		x.allStatic = x.allStatic || len(st.Modification.static) > 0
		x.askedStatic = x.askedStatic || st.Modification.conditional() && st.Modification.touchesStatic()
		x.allRegular = x.allRegular || len(x.table.Clustering) == 0 || st.Modification.where.HasClustering()
		// As in Cassandra, an invalid clustering is reported before conditions, even if the statement has no
		// condition.
		clustering, err := x.clustering(st.Modification, s)
		if err != nil {
			return err
		}
		// Operations that find list elements by index or value read the list in the same round as the conditions.
		if st.Modification.reads {
			x.reads = append(x.reads, clustering)
		}
		if st.Modification.conditional() {
			if err := x.addConditions(st.Modification, clustering, s); err != nil {
				return err
			}
		}
	}
	// The read command needs ascending clusterings, and results list the rows in this order.
	slices.SortFunc(x.rows, func(a, b casRow) int { return bytes.Compare(a.clustering, b.clustering) })
	// Sorting invalidates the positions, and no row is added after this.
	x.index = nil
	sortConditions(x.static.columns)
	for i := range x.rows {
		sortConditions(x.rows[i].columns)
	}
	return nil
}

// environment returns the environment of functions in terms and masks, with the moment of the request.
func (x *cas) environment() *execution.Environment {
	env := x.writer.o.Environment(x.request, x.now)
	return &env
}

// touchesStatic reports whether m changes static columns or has conditions on some.
func (m *Modification) touchesStatic() bool {
	return len(m.static) > 0 || slices.ContainsFunc(m.conditions.columns,
		func(c *condition) bool { return c.Column.Kind == schema.Static })
}

// checkLists rejects IN on key columns in a conditional statement, with Cassandra's message.
func (x *cas) checkLists(m *Modification) error {
	// Only UPDATE and DELETE can have lists.
	what := "deletions"
	if m.kind != restriction.Delete {
		what = "updates"
	}
	if m.where.KeyIn() {
		// Only a batch has this longer message.
		if x.batch {
			return invalid.Errorf("Batch with conditions cannot span multiple partitions (you cannot use IN on the " +
				"partition key)")
		}
		return invalid.Errorf("IN on the partition key is not supported with conditional %s", what)
	}
	if m.where.ClusteringIn() {
		return invalid.Errorf("IN on the clustering key columns is not supported with conditional %s", what)
	}
	return nil
}

// clustering returns the encoded clustering of the row that a statement changes. nil means the static row, or a whole
// partition. A table without clustering columns has one row with an empty, non-nil clustering.
func (x *cas) clustering(m *Modification, s *term.Scope) ([]byte, error) {
	if !m.where.HasClustering() && len(x.table.Clustering) > 0 {
		return nil, nil
	}
	in, err := m.where.Slices(s)
	if err != nil || len(in) == 0 {
		return nil, err
	}
	if len(x.table.Clustering) == 0 {
		return []byte{}, nil
	}
	// Without IN there is one slice. It is a range only for a DELETE without conditions, which reads no row.
	return in[0].Start, nil
}

// addConditions adds the conditions of a statement. Conditions on static columns belong to the static row, whichever
// row the statement writes. Several statements of a batch may add conditions to the same row; all must hold.
func (x *cas) addConditions(m *Modification, clustering []byte, s *term.Scope) error {
	c := m.conditions
	if c.exists || c.notExists {
		// IF EXISTS and IF NOT EXISTS name no columns: if the change is not applied, the result shows the whole row.
		x.all = true
		return x.at(clustering).requireExistence(c.notExists)
	}
	for _, on := range c.columns {
		at := clustering
		if on.Column.Kind == schema.Static {
			at = nil
		}
		// Do not keep the pointer across iterations, because x.at may move x.rows.
		r := x.at(at)
		if r.exists || r.notExists {
			return invalid.Errorf("Cannot mix IF conditions and IF NOT EXISTS for the same row")
		}
		// b keeps invalid values, which are errors only if all earlier conditions hold.
		b, err := on.Bind(s)
		if err != nil {
			return err
		}
		r.columns = append(r.columns, b)
	}
	// As in Cassandra, the result lists regular columns before static ones, each in the order of IF.
	for _, kind := range []schema.ColumnKind{schema.Regular, schema.Static} {
		for _, on := range c.columns {
			if on.Column.Kind == kind {
				x.shown.add(on.Column)
			}
		}
	}
	return nil
}

// rowsSearched is how many rows with conditions are searched linearly; most batches have few.
const rowsSearched = 16

// at returns the conditions on a row, and adds the row if there are none. The pointer is valid until the next call. nil
// means the static row.
func (x *cas) at(clustering []byte) *casRow {
	if clustering == nil {
		return &x.static
	}
	i := -1
	if x.index != nil {
		if at, ok := x.index[string(clustering)]; ok {
			i = at
		}
	} else {
		i = slices.IndexFunc(x.rows, func(r casRow) bool { return bytes.Equal(r.clustering, clustering) })
	}
	if i >= 0 {
		return &x.rows[i]
	}
	// Copy the clustering, which may point into memory that the next evaluation reuses.
	x.rows = append(x.rows, casRow{clustering: bytes.Clone(clustering)})
	n := len(x.rows)
	switch {
	case x.index != nil:
		x.index[string(clustering)] = n - 1
	case n > rowsSearched:
		// Build the map once there are too many rows for a linear search.
		x.index = make(map[string]int, 2*n)
		for i := range x.rows {
			x.index[string(x.rows[i].clustering)] = i
		}
	}
	return &x.rows[n-1]
}

// requireExistence adds IF EXISTS or, with not, IF NOT EXISTS to a row. Repeating the same condition is valid in a
// batch.
func (r *casRow) requireExistence(not bool) error {
	switch {
	case len(r.columns) > 0 && not:
		return invalid.Errorf("Cannot mix IF conditions and IF NOT EXISTS for the same row")
	case len(r.columns) > 0:
		return invalid.Errorf("Cannot mix IF conditions and IF EXISTS for the same row")
	case not && r.exists, !not && r.notExists:
		return invalid.Errorf("Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row")
	}
	r.exists, r.notExists = !not, not
	return nil
}

// command returns the command that reads the rows with conditions, and the rows that operations read. If there are
// none, it reads one row to find out whether the partition exists. With StaticCounts, the page also contains a
// partition that has only static values.
func (x *cas) command() *row.ReadCommand {
	cmd := &row.ReadCommand{Table: x.table.StorageID, Key: x.key, StaticCounts: true, Now: x.now.Seconds}
	var clusterings [][]byte
	// The static row is not in x.rows: the header of the page has it.
	for _, r := range x.rows {
		clusterings = append(clusterings, r.clustering)
	}
	for _, c := range x.reads {
		// nil is the static row, which every page contains in the partition's header.
		if c != nil {
			clusterings = append(clusterings, bytes.Clone(c))
		}
	}
	if len(clusterings) == 0 {
		cmd.Slices, cmd.Limits.Rows, cmd.Inserted = []row.Slice{row.AllRows()}, 1, !x.allRegular
		return cmd
	}
	// Slices of a command must be ascending and disjoint, but the same row may have conditions and be read by an
	// operation.
	slices.SortFunc(clusterings, bytes.Compare)
	for _, c := range slices.CompactFunc(clusterings, bytes.Equal) {
		cmd.Slices = append(cmd.Slices, row.ExactRow(c))
	}
	return cmd
}

// namesRows reports whether rows other than the static one have conditions or are read.
func (x *cas) namesRows() bool {
	return len(x.rows) > 0 || slices.ContainsFunc(x.reads, func(clustering []byte) bool { return clustering != nil })
}

// read creates views of the page's rows. The views are copies, which stay valid after the page is released. read
// removes cells that do not count (unseen) before it checks whether a row exists.
func (x *cas) read(page []byte) error {
	x.found = map[string]*rowview.View{}
	// A partition without a row in the page has an empty static row with the same key.
	x.header = &rowview.View{}
	x.header.Reset(x.table, x.now.Seconds)
	x.header.Header.Reset()
	x.header.Partition(x.key)
	var r row.PageReader
	r.Reset(page)
	static, regular := x.unseen(x.allStatic), x.unseen(x.allRegular)
	v := &rowview.View{}
	v.Reset(x.table, x.now.Seconds)
	for r.NextPartition() {
		r.Header.Cells = slices.DeleteFunc(r.Header.Cells, static)
		// Clone the header, which the reader reuses for the next partition.
		x.header.Header = r.Header.Clone()
		x.header.Partition(x.key)
		v.Header = r.Header
		v.Partition(r.Key)
		// All rows of the partition share the marked columns of its header.
		fixed := v.Marked()
		for r.NextRow(&v.Row) {
			// A row without relevant columns exists only if it was inserted.
			if v.Row.Cells = slices.DeleteFunc(v.Row.Cells, regular); !v.Live(&v.Row) {
				continue
			}
			v.Next(fixed, term.NotNil(v.Row.Clustering))
			v.Mark(&v.Row)
			// Clone the view, which is reused for the next row.
			x.found[string(v.Clustering)] = v.Clone()
		}
	}
	// The page was cut off by its limits. Evaluating only a part of the rows could apply a change whose conditions do
	// not hold. If no row is named, command itself limits the page to the first row.
	if r.More() && x.namesRows() {
		return invalid.Errorf("The rows that the conditions are on are too large to be read at once")
	}
	return r.Err()
}

// unseen returns a function that reports which cells do not count. With all, every cell counts.
func (x *cas) unseen(all bool) func(row.Cell) bool {
	return func(c row.Cell) bool {
		col := x.table.ColumnByID(c.Column)
		// col is nil for a cell of a dropped column, which never counts.
		return !all && (col == nil || !x.shown.contains(col))
	}
}

// view returns a row of the current page, or nil if it does not exist. A nil clustering means the static row, which
// exists if it has a live cell that counts.
func (x *cas) view(clustering []byte) *rowview.View {
	if clustering != nil {
		return x.found[string(clustering)]
	}
	if x.header == nil || !x.header.Live(&x.header.Header) {
		return nil
	}
	return x.header
}

// holds reports whether all conditions hold. It evaluates the static row first, then the rows by clustering. As in
// Cassandra, it stops at the first condition that does not hold, so later conditions cause no errors.
func (x *cas) holds() (bool, error) {
	for _, r := range append([]casRow{x.static}, x.rows...) {
		// v is nil for a row that does not exist, whose columns are all null.
		v := x.view(r.clustering)
		if r.exists && v == nil || r.notExists && v != nil {
			return false, nil
		}
		for i := range r.columns {
			if ok, err := r.columns[i].Holds(v); !ok || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// update returns the change for the rows in page. It returns false if a condition does not hold. Package paxos calls
// it, once for each ballot that it proposes: timestamp is the ballot's, in µs. The mutation belongs to the caller.
func (x *cas) update(page []byte, timestamp int64) (*row.Mutation, bool, error) {
	if err := x.read(page); err != nil {
		return nil, false, err
	}
	if ok, err := x.holds(); !ok || err != nil {
		return nil, false, err
	}
	// Each evaluation needs its own writing, because the request's goroutine does not wait for this one.
	w := x.writer.writings.Get().(*writing)
	defer x.writer.putWriting(w)
	out := new(row.Mutation)
	out.Reset(x.table.StorageID, x.key)
	// Positions of new list elements derive from the ballot's timestamp.
	w.positions = x.writer.o.IDs.Ballot(timestamp)
	for _, s := range x.statements {
		w.begin(x.writer, x.request, x.params, s.Values, x.now)
		// Set after begin and before stamp, which ignores USING TIMESTAMP then.
		w.known = x.known
		// Functions must not wait for memory here, so hide the memory of the request from them.
		w.Scope.Env = unbounded{&w.env}
		if err := w.stamp(s.Modification, timestamp); err != nil {
			return nil, false, err
		}
		if err := w.expiry(s.Modification); err != nil {
			return nil, false, err
		}
		if err := w.build(s.Modification, func(m *row.Mutation) error {
			// All statements are on one partition: their changes are one mutation.
			out.Append(m)
			return checkPartition(s.Modification.table, out, 0)
		}); err != nil {
			return nil, false, err
		}
	}
	return out, true, nil
}

// known returns the contents of a row for an operation that reads it. A row that does not exist is an empty view,
// never nil. In update, it replaces the writing's read, because the page contains the rows of x.reads.
func (x *cas) known(clustering []byte) *rowview.View {
	if len(x.table.Clustering) == 0 {
		// In x.found, the only row of a table without clustering columns has an empty clustering; nil would mean the
		// static row.
		clustering = []byte{}
	}
	if v := x.view(clustering); v != nil {
		return v
	}
	v := &rowview.View{}
	v.Reset(x.table, x.now.Seconds)
	return v
}

// result returns the result: whether the change was applied and, if not, the current values. As in Cassandra, it
// contains each existing row with a condition. If there is none, it contains only [applied].
func (x *cas) result(applied bool, page []byte) (Outcome, error) {
	columns := []term.Spec{{Keyspace: x.table.Keyspace, Table: x.table.Name, Name: "[applied]",
		Type: types.Native(types.Boolean)}}
	out := Outcome{Columns: columns, Count: 1}
	if applied {
		// A boolean is one byte, as [bytes] with a length of 4 bytes.
		out.Values = wire.AppendBytes(nil, []byte{1})
		return out, nil
	}
	out.Values = wire.AppendBytes(nil, []byte{0})
	// Static columns that only statements without a condition change are not part of the result.
	x.allStatic = x.allStatic && x.askedStatic
	// Read the page of the last evaluation again, because other columns count for the result.
	if err := x.read(page); err != nil {
		return Outcome{}, err
	}
	var views []*rowview.View
	// The conditions concern only static columns or the existence of the partition, so the command has read one row.
	if len(x.rows) == 0 { // the first row, whatever its clustering
		for _, v := range x.found {
			views = append(views, v)
		}
	}
	for _, a := range x.rows {
		if v := x.view(a.clustering); v != nil {
			views = append(views, v)
		}
	}
	// The static row is shown as a separate row only if there is no other row.
	if v := x.view(nil); len(views) == 0 && v != nil {
		views = append(views, v)
	}
	if len(views) == 0 {
		return out, nil
	}
	// Every row has the same columns.
	shown := x.columns()
	for _, c := range shown {
		columns = append(columns, term.Spec{Keyspace: x.table.Keyspace, Table: x.table.Name, Name: c.Name,
			Type: c.Type})
	}
	// Replace the single [applied] value, because each row now begins with its own.
	out.Columns, out.Count, out.Values = columns, int32(len(views)), out.Values[:0]
	for _, v := range views {
		out.Values = wire.AppendBytes(out.Values, []byte{0})
		for _, c := range shown {
			b := v.Value(c)
			// Masked columns show the masked value, unless the client has UNMASK. x.masks was determined in
			// executeConditional.
			if x.masks != nil {
				var err error
				if b, err = x.masks.Value(x.environment(), c, b); err != nil {
					return Outcome{}, err
				}
			}
			out.Values = wire.AppendBytes(out.Values, b)
		}
	}
	return out, nil
}

// columns returns the columns of a result that was not applied, after [applied]. In a batch, the key columns identify
// the row. A single statement names one row, so it needs none.
func (x *cas) columns() []*schema.Column {
	if x.all {
		return x.table.Columns()
	}
	if !x.batch {
		return x.shown.list
	}
	return slices.Concat(x.table.PartitionKey, x.table.Clustering, x.shown.list)
}

// checkConditionalBatch refuses invalid batches with a condition. timestamp means that USING of the batch has one.
// Batches without conditions pass. prepare checks that all statements have the same partition.
func checkConditionalBatch(statements []*Modification, timestamp bool) error {
	// Statements without conditions must be on its table, too.
	var first *Modification
	for _, m := range statements {
		if m.conditional() {
			first = m
			break
		}
	}
	if first == nil {
		return nil
	}
	for _, m := range statements {
		if m.table != first.table {
			return invalid.Errorf("Batch with conditions cannot span multiple tables")
		}
	}
	// The ballot determines the timestamp of a conditional change.
	if timestamp {
		return invalid.Errorf("Cannot provide custom timestamp for conditional BATCH")
	}
	return nil
}
