package write

import (
	"slices"

	"cqld/cql"
	"cqld/query/constraint"
	"cqld/query/execution"
	"cqld/query/invalid"
	"cqld/query/mask"
	"cqld/query/restriction"
	"cqld/query/term"
	"cqld/request"
	"cqld/schema"
	"cqld/types"
)

// Modification is the plan of an INSERT, UPDATE or DELETE. It is immutable once it is compiled, and shared by all
// executions of a prepared statement.
type Modification struct {
	kind  restriction.Statement
	table *schema.Table
	// where contains the selected keys and clusterings. For INSERT, they come from VALUES.
	where *restriction.Set
	// regular contains the operations on regular columns, ascending by column id (addOperation).
	regular []operation
	// static contains the operations on static columns, in the same order.
	static []operation
	json   *jsonValues // for INSERT … JSON
	// decoded are the markers in the text of INSERT … JSON and in arguments of from_json.
	decoded []int
	// timestamp is a bigint in µs since 1970; nil means that the batch, the request or the clock determines it.
	timestamp term.Term
	// ttl is an int in seconds; nil means the table's default.
	ttl term.Term
	// timeout is a duration; nil means the configured timeouts.
	timeout term.Term
	checks  []*constraint.Check // constraints of static and regular columns
	// keyChecks are the constraints of primary key columns.
	keyChecks []*constraint.Check
	mandatory *schema.Column // column that this INSERT lacks; execution fails
	// reads means that an operation needs the current row.
	reads   bool
	masking *mask.Decision // for masked lists with elements found by index; nil means none
	// conditions are the conditions of IF; nil means that there is no IF.
	conditions *conditions
	// Refused is the error if no client may execute the statement. Only clients with the permissions receive it.
	Refused error
	// single means that every key column has one value, so that no list of keys is needed.
	single bool
	ranges bool // the statement deletes columns of a range of rows, an error unless the range is empty
}

// rangesOfColumns returns the error for DELETE c … WHERE with a range of clusterings: only whole rows can be deleted by
// range.
func rangesOfColumns() error {
	return invalid.Errorf("Range deletions are not supported for specific columns")
}

// Compile compiles an INSERT, UPDATE or DELETE of the compiler's table. If the error is nil, the result is not nil.
// stmt must not be of another kind.
func (writer *Writer) Compile(terms *term.Compiler, stmt cql.Statement) (m *Modification, err error) {
	c := &compiler{Compiler: terms, writer: writer}
	switch stmt := stmt.(type) {
	case *cql.Insert:
		m, err = c.insert(stmt)
	case *cql.InsertJSON:
		m, err = c.insertJSON(stmt)
	case *cql.Update:
		m, err = c.update(stmt)
	case *cql.Delete:
		m, err = c.delete(stmt)
	}
	if err != nil {
		return nil, err
	}
	// Compile the whole statement even if no client may execute it: errors in the statement come first, and clients
	// without permission get another error.
	m.Refused = c.refused
	// Clear Decoded, because further statements of a batch use the same compiler.
	m.decoded, c.Decoded = c.Decoded, nil
	// masksOfIndexed needs the compiled operations.
	m.masking = c.masksOfIndexed(m)
	return m, c.constraints(m)
}

// masksOfIndexed returns the Decision for masked lists whose elements m finds by index. They count as restricted,
// because an index reveals the size of the list. nil means that there are none.
func (c *compiler) masksOfIndexed(m *Modification) *mask.Decision {
	// Static columns may be masked, too.
	var restricted []*schema.Column
	// Without masks on such lists, executions decide nothing.
	for _, list := range [][]operation{m.static, m.regular} {
		for _, o := range list {
			if byIndex(o) && o.Column().Mask != nil {
				restricted = append(restricted, o.Column())
			}
		}
	}
	if len(restricted) == 0 {
		return nil
	}
	return mask.NewDecision(mask.Compile(c.Compiler, c.Table), c.Table, restricted)
}

// permitIndexes rejects statements that find elements of masked lists by index, unless the client may restrict these
// lists. Each execution calls it, because permissions may change after a statement was prepared.
func (writer *Writer) permitIndexes(r *request.Request, modifications ...*Modification) error {
	for _, m := range modifications {
		// Only the error matters, because no value is returned.
		if _, err := writer.o.Masks(r, m.masking); err != nil {
			return err
		}
	}
	return nil
}

// checkModifiable refuses tables that statements cannot modify. Errors for virtual tables are stored in c.refused and
// reported at execution, after the permission check.
func (c *compiler) checkModifiable(kind restriction.Statement) error {
	switch {
	case c.Table.IsCounter() && kind == restriction.Insert:
		return invalid.Errorf("INSERT statements are not allowed on counter tables, use UPDATE instead")
	case c.Table.Virtual || c.writer.o.IsVirtual(c.Table):
		c.refused = virtualWrite(c.Table)
	case c.Table.View != nil:
		c.refused = invalid.Errorf("Cannot directly modify a materialized view")
	}
	return nil
}

// virtualWrite returns the error for a change of a virtual table: INVALID for the tables of Cassandra's virtual
// keyspaces, UNAUTHORIZED for other ones.
func virtualWrite(t *schema.Table) error {
	if schema.IsVirtualSystem(t.Keyspace) {
		return invalid.Errorf("Modification is not supported by table %s.%s", t.Keyspace, t.Name)
	}
	return &invalid.Unauthorized{Msg: t.Keyspace + " keyspace is not user-modifiable."}
}

// insert compiles INSERT … VALUES. The order of its steps is the order in which Cassandra reports errors: names, values
// of other columns, values of the key, conditions, USING.
func (c *compiler) insert(stmt *cql.Insert) (*Modification, error) {
	if err := c.checkModifiable(restriction.Insert); err != nil {
		return nil, err
	}
	if len(stmt.Columns) != len(stmt.Values) {
		return nil, invalid.Errorf("Unmatched column names/values")
	}
	// keys, m.regular and m.static together get a value for each name.
	m := &Modification{kind: restriction.Insert, table: c.Table}
	var names []string
	keys := keyTerms{}
	for i, name := range stmt.Columns {
		col, err := c.Column(name)
		if err != nil {
			return nil, err
		}
		// The parser has unquoted and folded names, so equal names mean equal columns.
		if slices.Contains(names, name) {
			return nil, invalid.Errorf("The column names contains duplicates")
		}
		names = append(names, name)
		if col.Kind == schema.PartitionKey || col.Kind == schema.Clustering {
			continue // as in Cassandra, after the values of other columns
		}
		t, err := compileValue(c.Compiler, stmt.Values[i], col)
		if err != nil {
			return nil, err
		}
		m.addOperation(setOperation(col, t))
	}
	// The second pass compiles the key's values; all names are known to be valid.
	for i, name := range stmt.Columns {
		col := c.Table.Column(name)
		if col.Kind != schema.PartitionKey && col.Kind != schema.Clustering {
			continue
		}
		t, err := c.ColumnTerm(stmt.Values[i], col)
		if err != nil {
			return nil, err
		}
		keys[col] = t
	}
	// Before insertKeys, because a default may complete the key.
	if err := c.defaults(m, names, keys); err != nil {
		return nil, err
	}
	if err := c.insertKeys(m, keys); err != nil {
		return nil, err
	}
	m.setCompactValue()
	var err error
	if m.conditions, err = c.compileConditions(false, stmt.IfNotExists, nil, stmt.Using); err != nil {
		return nil, err
	}
	return m, c.using(m, stmt.Using)
}

// keyTerms contains the values that INSERT assigns to key columns. insertKeys reports columns without an entry.
type keyTerms map[*schema.Column]term.Term

// insertKeys converts the key's values to restrictions, so that INSERT finds its row as UPDATE does. A statement that
// assigns only static columns may omit the clustering.
func (c *compiler) insertKeys(m *Modification, keys keyTerms) error {
	rs, err := restriction.CompileValues(c.Table, keys, len(m.static) > 0 && len(m.regular) == 0)
	if err != nil {
		return err
	}
	// VALUES has one term for each column, so there are no lists.
	m.where, m.single = rs, true
	return nil
}

// setCompactValue makes an INSERT into a dense table assign the value column if it is hidden, and requires the column
// otherwise, because such a row exists only while it has a value. It does nothing for other tables. As in Cassandra,
// key values are checked before.
func (m *Modification) setCompactValue() {
	switch value := m.table.CompactValue(); {
	case value == nil || len(m.regular) > 0:
	// The hidden column of a dense table without columns besides its key contains the empty value.
	case m.table.Hides(value):
		m.addOperation(setOperation(value, term.Constant([]byte{})))
	default:
		// addRow reports it at execution.
		m.mandatory = value
	}
}

// addOperation adds an operation after the others on its column and on columns with smaller ids. Operations on the
// same column keep the order of the statement, because later ones see the effects of earlier ones (existing).
func (m *Modification) addOperation(o operation) {
	o = checkVector(m.table, o)
	list := &m.regular
	if o.Column().Kind == schema.Static {
		list = &m.static
	}
	m.reads = m.reads || o.Reads()
	// Find the first operation with a greater id; operations with equal ids stay before it.
	id := int(o.Column().ID)
	at, _ := slices.BinarySearchFunc(*list, id+1, func(x operation,
		next int) int {
		return int(x.Column().ID) - next
	})
	*list = slices.Insert(*list, at, o)
}

// using compiles USING TIMESTAMP, TTL and TIMEOUT. The names in brackets are the names of the markers in the metadata,
// as in Cassandra.
func (c *compiler) using(m *Modification, u cql.Using) (err error) {
	if m.timeout, err = execution.CompileTimeout(c.Compiler, u.Timeout); err != nil {
		return err
	}
	if u.Timestamp != nil {
		r := c.Receiver("[timestamp]", types.Native(types.Bigint))
		if m.timestamp, err = c.Term(u.Timestamp, r); err != nil {
			return err
		}
	}
	// Values are checked when they are evaluated (attributes).
	if u.TTL != nil {
		m.ttl, err = c.Term(u.TTL, c.Receiver("[ttl]", types.Native(types.Int)))
	}
	return err
}

// update compiles UPDATE. Errors are reported in the order USING, SET, IF, WHERE.
func (c *compiler) update(stmt *cql.Update) (*Modification, error) {
	if err := c.checkModifiable(restriction.Update); err != nil {
		return nil, err
	}
	if err := c.checkCounterConditions(len(stmt.Conditions)); err != nil {
		return nil, err
	}
	m := &Modification{kind: restriction.Update, table: c.Table}
	if err := c.using(m, stmt.Using); err != nil {
		return nil, err
	}
	for _, a := range stmt.Assignments {
		o, err := compileAssignment(c.Compiler, a)
		if err != nil {
			return nil, err
		}
		m.addOperation(o)
	}
	var err error
	if m.conditions, err = c.compileConditions(stmt.IfExists, false, stmt.Conditions, stmt.Using); err != nil {
		return nil, err
	}
	// A statement that neither changes nor tests regular columns may omit the clustering.
	// IF EXISTS is no condition on regular columns.
	onlyStatic := len(m.regular) == 0 && (!m.conditional() || !m.conditions.regular())
	rs, err := restriction.Compile(c.Compiler, stmt.Where,
		restriction.Options{Statement: restriction.Update, OnlyStatic: onlyStatic})
	// checkCounterConditions has rejected all conditions except IF EXISTS.
	if err == nil {
		err = c.checkCounterModification(stmt.Using, stmt.IfExists)
	}
	if err != nil {
		return nil, err
	}
	m.where = rs
	m.single = rs.Single()
	return m, nil
}

// delete compiles DELETE. Without targets it deletes rows, a range of rows or a partition, depending on WHERE.
func (c *compiler) delete(stmt *cql.Delete) (*Modification, error) {
	if err := c.checkModifiable(restriction.Delete); err != nil {
		return nil, err
	}
	if err := c.checkCounterConditions(len(stmt.Conditions)); err != nil {
		return nil, err
	}
	m := &Modification{kind: restriction.Delete, table: c.Table}
	for _, t := range stmt.Targets {
		o, err := compileDeletion(c.Compiler, t)
		if err != nil {
			return nil, err
		}
		m.addOperation(o)
	}
	if err := c.using(m, stmt.Using); err != nil {
		return nil, err
	}
	var err error
	if m.conditions, err = c.compileConditions(stmt.IfExists, false, stmt.Conditions, stmt.Using); err != nil {
		return nil, err
	}
	// A target of static columns alone needs no clustering, unless the condition needs a row.
	deletesStatic := len(m.static) > 0 && len(m.regular) == 0
	onlyStatic := deletesStatic && (!m.conditional() || !m.conditions.regular())
	rs, err := restriction.Compile(c.Compiler, stmt.Where,
		restriction.Options{Statement: restriction.Delete, OnlyStatic: onlyStatic})
	if err == nil {
		err = c.checkCounterModification(stmt.Using, stmt.IfExists)
	}
	if err != nil {
		return nil, err
	}
	const equalities = "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to "
	// Check rules that need the compiled WHERE: a condition needs one row, and columns cannot be deleted from a
	// range.
	switch {
	case rs.WholeRows():
	case m.conditional() && !deletesStatic:
		return nil, invalid.Errorf(equalities + "delete non static columns")
	case m.conditional() && m.conditions.regular():
		return nil, invalid.Errorf(equalities + "use IF condition on non static columns")
	case m.conditional() && len(m.regular) > 0:
		return nil, rangesOfColumns()
	default:
		// Report this at execution, because an empty range is valid, as in Cassandra.
		m.ranges = len(m.regular) > 0
	}
	m.where = rs
	// buildSingle does not support ranges.
	m.single = rs.Single() && !m.ranges
	return m, nil
}
