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
type cas struct {
	writer     *Writer
	request    *request.Request
	params     *execution.Params
	table      *schema.Table
	key        row.PartitionKey
	now        execution.Moment
	statements []Statement
	batch      bool
	masks      *mask.Table // for the rows of the result

	rows   []casRow // rows with conditions, by clustering
	static casRow
	reads  [][]byte // clusterings of further rows that operations read; nil is the static row
	// shown are the columns of the result if a condition does not hold. all means every column.
	shown []*schema.Column
	all   bool
	// allStatic and allRegular determine whether static and regular columns without a condition count. As in
	// Cassandra, a column without a condition is shown as null unless a statement changes such columns.
	allStatic, allRegular bool
	askedStatic           bool // a statement with a condition changes static columns, or has a condition on some

	found  map[string]*rowview.View // rows of the current page, by clustering
	header *rowview.View            // a view of the static row only
}

// casRow contains the conditions on one row.
type casRow struct {
	clustering        []byte
	exists, notExists bool
	columns           []boundCondition
}

// executeConditional executes statements of which at least one has a condition.
func (writer *Writer) executeConditional(r *request.Request, statements []Statement, batch bool,
	params *execution.Params) (Outcome, error) {
	x := &cas{writer: writer, request: r, params: params, now: writer.o.Moment(params), statements: statements,
		batch: batch, table: statements[0].Modification.table}
	for _, st := range statements {
		if !st.Modification.conditional() {
			continue
		}
		masks, err := writer.o.Masks(r, st.Modification.conditions.masking)
		if err != nil {
			return Outcome{}, err
		}
		x.masks = masks // all statements are on one table
	}
	if err := x.reserve(); err != nil {
		return Outcome{}, err
	}
	if err := x.prepare(); err != nil {
		return Outcome{}, err
	}
	if err := execution.CheckConditionalLevels(x.table, r.Consistency, r.SerialConsistency); err != nil {
		return Outcome{}, err
	}
	r.Cost.Path = string(restriction.AccessPartitionKey)
	timeouts := writer.o.TimeoutsOf(params)
	req := &paxos.CASRequest{
		Command: x.command(), Serial: r.SerialConsistency, Consistency: r.Consistency,
		Contention: timeouts.CAS, Timeout: timeouts.Write, Update: x.update,
	}
	applied, call, err := writer.o.Executor.CAS(r, req)
	if err != nil {
		return Outcome{}, err
	}
	defer call.Release()
	return x.result(applied, call.Page())
}

// prepare determines the partition, and the conditions on each row.
func (x *cas) prepare() error {
	s := &term.Scope{Env: x.environment()}
	for i, st := range x.statements {
		s.Values = st.Values
		if st.Modification.json != nil {
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
		if i == 0 {
			x.key = row.PartitionKey{Token: keys[0].Token, Bytes: bytes.Clone(keys[0].Bytes)}
		} else if st.Modification.table != x.table || !bytes.Equal(keys[0].Bytes, x.key.Bytes) {
			return invalid.Errorf("Batch with conditions cannot span multiple partitions")
		}
		x.allStatic = x.allStatic || len(st.Modification.static) > 0
		x.askedStatic = x.askedStatic || st.Modification.conditional() && st.Modification.touchesStatic()
		x.allRegular = x.allRegular || len(x.table.Clustering) == 0 || st.Modification.where.HasClustering()
		// As in Cassandra, also an invalid clustering of a statement without a condition comes before the conditions.
		clustering, err := x.clustering(st.Modification, s)
		if err != nil {
			return err
		}
		if st.Modification.reads {
			x.reads = append(x.reads, clustering)
		}
		if st.Modification.conditional() {
			if err := x.addConditions(st.Modification, clustering, s); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(x.rows, func(a, b casRow) int { return bytes.Compare(a.clustering, b.clustering) })
	sortConditions(x.static.columns)
	for i := range x.rows {
		sortConditions(x.rows[i].columns)
	}
	return nil
}

func (x *cas) environment() *execution.Environment {
	env := x.writer.o.Environment(x.request, x.now)
	return &env
}

// touchesStatic reports whether m changes static columns or has conditions on some.
func (m *Modification) touchesStatic() bool {
	return len(m.static) > 0 || slices.ContainsFunc(m.conditions.columns,
		func(c *condition) bool { return c.Column.Kind == schema.Static })
}

func (x *cas) checkLists(m *Modification) error {
	what := "deletions"
	if m.kind != restriction.Delete {
		what = "updates"
	}
	if m.where.KeyIn() {
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

// clustering returns the row that a statement changes; nil means the static one.
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
	return in[0].Start, nil
}

// addConditions adds the conditions of a statement.
func (x *cas) addConditions(m *Modification, clustering []byte, s *term.Scope) error {
	c := m.conditions
	if c.exists || c.notExists {
		x.all = true
		return x.at(clustering).requireExistence(c.notExists)
	}
	for _, on := range c.columns {
		at := clustering
		if on.Column.Kind == schema.Static {
			at = nil
		}
		r := x.at(at)
		if r.exists || r.notExists {
			return invalid.Errorf("Cannot mix IF conditions and IF NOT EXISTS for the same row")
		}
		b, err := on.Bind(s)
		if err != nil {
			return err
		}
		r.columns = append(r.columns, b)
	}
	for _, kind := range []schema.ColumnKind{schema.Regular, schema.Static} {
		for _, on := range c.columns {
			if on.Column.Kind == kind && !slices.Contains(x.shown, on.Column) {
				x.shown = append(x.shown, on.Column)
			}
		}
	}
	return nil
}

// at returns the conditions on a row.
func (x *cas) at(clustering []byte) *casRow {
	if clustering == nil {
		return &x.static
	}
	i := slices.IndexFunc(x.rows, func(r casRow) bool { return bytes.Equal(r.clustering, clustering) })
	if i < 0 {
		i = len(x.rows)
		x.rows = append(x.rows, casRow{clustering: bytes.Clone(clustering)})
	}
	return &x.rows[i]
}

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

// command returns the command that reads the rows with conditions. Without any, the first row shows whether the
// partition exists: the first one that an INSERT wrote, unless statements change regular columns.
func (x *cas) command() *row.ReadCommand {
	cmd := &row.ReadCommand{Table: x.table.StorageID, Key: x.key, StaticCounts: true, Now: x.now.Seconds}
	var clusterings [][]byte
	for _, r := range x.rows {
		clusterings = append(clusterings, r.clustering)
	}
	for _, c := range x.reads {
		if c != nil {
			clusterings = append(clusterings, bytes.Clone(c))
		}
	}
	if len(clusterings) == 0 {
		cmd.Slices, cmd.Limits.Rows, cmd.Inserted = []row.Slice{row.AllRows()}, 1, !x.allRegular
		return cmd
	}
	slices.SortFunc(clusterings, bytes.Compare)
	for _, c := range slices.CompactFunc(clusterings, bytes.Equal) {
		cmd.Slices = append(cmd.Slices, row.ExactRow(c))
	}
	return cmd
}

// read creates views of the page's rows.
func (x *cas) read(page []byte) error {
	x.found = map[string]*rowview.View{}
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
		x.header.Header = r.Header.Clone()
		x.header.Partition(x.key)
		v.Header = r.Header
		v.Partition(r.Key)
		fixed := v.Marked()
		for r.NextRow(&v.Row) {
			// A row without relevant columns exists only if it was inserted.
			if v.Row.Cells = slices.DeleteFunc(v.Row.Cells, regular); !v.Live(&v.Row) {
				continue
			}
			v.Next(fixed, term.NotNil(v.Row.Clustering))
			v.Mark(&v.Row)
			x.found[string(v.Clustering)] = v.Clone()
		}
	}
	if r.More() && len(x.rows) > 0 {
		return invalid.Errorf("The rows that the conditions are on are too large to be read at once")
	}
	return r.Err()
}

// unseen returns a function that reports which cells do not count, or nil if all do.
func (x *cas) unseen(all bool) func(row.Cell) bool {
	return func(c row.Cell) bool {
		col := x.table.ColumnByID(c.Column)
		return !all && (col == nil || !slices.Contains(x.shown, col))
	}
}

// view returns a row of the current page, or nil.
func (x *cas) view(clustering []byte) *rowview.View {
	if clustering != nil {
		return x.found[string(clustering)]
	}
	if x.header == nil || !x.header.Live(&x.header.Header) {
		return nil
	}
	return x.header
}

// holds reports whether all conditions hold.
func (x *cas) holds() (bool, error) {
	for _, r := range append([]casRow{x.static}, x.rows...) {
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

// update returns the change for the rows in page. The coordinator calls it.
func (x *cas) update(page []byte, timestamp int64) (*row.Mutation, bool, error) {
	if err := x.read(page); err != nil {
		return nil, false, err
	}
	if ok, err := x.holds(); !ok || err != nil {
		return nil, false, err
	}
	w := x.writer.writings.Get().(*writing)
	defer x.writer.putWriting(w)
	out := new(row.Mutation)
	out.Reset(x.table.StorageID, x.key)
	w.positions = x.writer.o.IDs.Ballot(timestamp)
	for _, s := range x.statements {
		w.begin(x.writer, x.request, x.params, s.Values, x.now)
		w.known = x.known
		if err := w.attributes(s.Modification, timestamp); err != nil {
			return nil, false, err
		}
		if err := w.build(s.Modification, func(m *row.Mutation) error {
			out.Append(m)
			return checkPartition(s.Modification.table, out)
		}); err != nil {
			return nil, false, err
		}
	}
	return out, true, nil
}

// known returns the contents of a row for an operation that reads it.
func (x *cas) known(clustering []byte) *rowview.View {
	if len(x.table.Clustering) == 0 {
		clustering = []byte{}
	}
	if v := x.view(clustering); v != nil {
		return v
	}
	v := &rowview.View{}
	v.Reset(x.table, x.now.Seconds)
	return v
}

// result returns the result: whether the change was applied and, if not, the current values.
func (x *cas) result(applied bool, page []byte) (Outcome, error) {
	columns := []term.Spec{{Keyspace: x.table.Keyspace, Table: x.table.Name, Name: "[applied]",
		Type: types.Native(types.Boolean)}}
	out := Outcome{Columns: columns, Count: 1}
	if applied {
		out.Values = wire.AppendBytes(nil, []byte{1})
		return out, nil
	}
	out.Values = wire.AppendBytes(nil, []byte{0})
	// Static columns that only statements without a condition change are not part of the result.
	x.allStatic = x.allStatic && x.askedStatic
	if err := x.read(page); err != nil {
		return Outcome{}, err
	}
	var views []*rowview.View
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
	if v := x.view(nil); len(views) == 0 && v != nil {
		views = append(views, v)
	}
	if len(views) == 0 {
		return out, nil
	}
	shown := x.columns()
	for _, c := range shown {
		columns = append(columns, term.Spec{Keyspace: x.table.Keyspace, Table: x.table.Name, Name: c.Name,
			Type: c.Type})
	}
	out.Columns, out.Count, out.Values = columns, int32(len(views)), out.Values[:0]
	for _, v := range views {
		out.Values = wire.AppendBytes(out.Values, []byte{0})
		for _, c := range shown {
			b := v.Value(c)
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

// columns returns the columns of a result that was not applied.
func (x *cas) columns() []*schema.Column {
	if x.all {
		return x.table.Columns()
	}
	if !x.batch {
		return x.shown
	}
	return slices.Concat(x.table.PartitionKey, x.table.Clustering, x.shown)
}

// checkConditionalBatch refuses invalid batches with a condition.
func checkConditionalBatch(statements []*Modification, timestamp bool) error {
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
	if timestamp {
		return invalid.Errorf("Cannot provide custom timestamp for conditional BATCH")
	}
	return nil
}
