package query

import (
	"slices"

	"cqld/cql"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// modification is the plan of an INSERT, UPDATE or DELETE.
type modification struct {
	kind      statementKind
	table     *schema.Table
	where     *restrictions
	regular   []operation
	static    []operation
	json      *jsonValues // for INSERT … JSON with a bind marker
	timestamp term.Term
	ttl       term.Term
	reads     bool
	// conditions are those of IF. Nil means that there is no IF.
	conditions *conditions
	// single means that every key column has one value, so that no list of keys is needed.
	single bool
}

// checkModifiable refuses tables that statements cannot modify. Clients without permission on virtual tables must not get
// another error, so these are refused at execution.
func (c *compiler) checkModifiable(kind statementKind) error {
	switch {
	case c.Table.IsCounter() && kind == kindInsert:
		return invalidf("INSERT statements are not allowed on counter tables, use UPDATE instead")
	case c.refused == nil && (c.Table.Virtual || c.p.isVirtual(c.Table)):
		c.refused = c.p.virtualWrite(c.Table)
	case c.refused == nil && c.Table.View != nil:
		c.refused = invalidf("Cannot directly modify a materialized view")
	}
	return nil
}

func (p *Processor) virtualWrite(t *schema.Table) error {
	if schema.IsVirtualSystem(t.Keyspace) {
		return invalidf("Modification is not supported by table %s.%s", t.Keyspace, t.Name)
	}
	return &Unauthorized{Msg: t.Keyspace + " keyspace is not user-modifiable."}
}

func (c *compiler) insert(stmt *cql.Insert) (*modification, error) {
	if err := c.checkModifiable(kindInsert); err != nil {
		return nil, err
	}
	if len(stmt.Columns) != len(stmt.Values) {
		return nil, invalidf("Unmatched column names/values")
	}
	m := &modification{kind: kindInsert, table: c.Table}
	var names []string
	keys := keyTerms{}
	for i, name := range stmt.Columns {
		col, err := c.column(name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(names, name) {
			return nil, invalidf("The column names contains duplicates")
		}
		names = append(names, name)
		t, err := c.ColumnTerm(stmt.Values[i], col)
		if err != nil {
			return nil, err
		}
		if col.Kind == schema.PartitionKey || col.Kind == schema.Clustering {
			keys[col] = t
			continue
		}
		m.addOperation(assign(col, t))
	}
	if err := c.insertKeys(m, keys); err != nil {
		return nil, err
	}
	var err error
	if m.conditions, err = c.compileConditions(false, stmt.IfNotExists, nil, stmt.Using); err != nil {
		return nil, err
	}
	return m, c.using(m, stmt.Using)
}

// keyTerms contains the values that INSERT assigns to key columns.
type keyTerms map[*schema.Column]term.Term

// insertKeys converts the key's values to restrictions.
func (c *compiler) insertKeys(m *modification, keys keyTerms) error {
	rs := &restrictions{table: c.Table, partition: make([]*restriction, len(c.Table.PartitionKey))}
	for i, col := range c.Table.PartitionKey {
		if t, ok := keys[col]; ok {
			rs.partition[i] = compare([]*schema.Column{col}, cql.Equal, &valueTerm{terms: []term.Term{t}})
		}
	}
	for _, col := range c.Table.Clustering {
		if t, ok := keys[col]; ok {
			rs.clustering = append(rs.clustering, compare([]*schema.Column{col}, cql.Equal, &valueTerm{terms: []term.Term{t}}))
		}
	}
	o := restrictionOptions{kind: kindInsert, onlyStatic: len(m.static) > 0 && len(m.regular) == 0 && len(rs.clustering) == 0}
	if err := rs.checkPartition(o); err != nil {
		return err
	}
	if err := rs.checkClustering(o); err != nil {
		return err
	}
	m.where, m.single = rs, true
	return nil
}

// assign returns the operation that sets a column.
func assign(col *schema.Column, t term.Term) operation {
	if col.Type.MultiCell() {
		return &setParts{target{col}, t}
	}
	return &setValue{target{col}, t}
}

func (m *modification) addOperation(o operation) {
	if o.column().Kind == schema.Static {
		m.static = append(m.static, o)
	} else {
		m.regular = append(m.regular, o)
	}
	m.reads = m.reads || o.reads()
	byID := func(a, b operation) int { return int(a.column().ID) - int(b.column().ID) }
	slices.SortStableFunc(m.static, byID)
	slices.SortStableFunc(m.regular, byID)
}

// using compiles USING TIMESTAMP and TTL.
func (c *compiler) using(m *modification, u cql.Using) (err error) {
	if u.Timestamp != nil {
		r := c.Receiver("[timestamp]", types.Native(types.Bigint))
		if m.timestamp, err = c.Term(u.Timestamp, r); err != nil {
			return err
		}
	}
	if u.TTL != nil {
		m.ttl, err = c.Term(u.TTL, c.Receiver("[ttl]", types.Native(types.Int)))
	}
	return err
}

func (c *compiler) update(stmt *cql.Update) (*modification, error) {
	if err := c.checkModifiable(kindUpdate); err != nil {
		return nil, err
	}
	if err := c.checkCounterModification(stmt.Using, stmt.IfExists, len(stmt.Conditions)); err != nil {
		return nil, err
	}
	m := &modification{kind: kindUpdate, table: c.Table}
	if err := c.using(m, stmt.Using); err != nil {
		return nil, err
	}
	for _, a := range stmt.Assignments {
		o, err := c.assignment(a)
		if err != nil {
			return nil, err
		}
		m.addOperation(o)
	}
	var err error
	if m.conditions, err = c.compileConditions(stmt.IfExists, false, stmt.Conditions, stmt.Using); err != nil {
		return nil, err
	}
	onlyStatic := len(m.regular) == 0 && (!m.conditional() || !m.conditions.regular())
	rs, err := c.restrictions(stmt.Where, restrictionOptions{kind: kindUpdate, onlyStatic: onlyStatic})
	if err != nil {
		return nil, err
	}
	m.where = rs
	m.single = rs.isSingle()
	return m, nil
}

// isSingle reports whether WHERE selects one row, or one partition, by one term for each column.
func (rs *restrictions) isSingle() bool {
	for _, r := range rs.partition {
		if r == nil || r.kind != restrictEqual {
			return false
		}
	}
	for i, r := range rs.clustering {
		if r.kind != restrictEqual || r.equal.marker != nil || len(r.columns) != 1 || r.first().Position != i {
			return false
		}
	}
	return len(rs.clustering) == 0 || len(rs.clustering) == len(rs.table.Clustering)
}

func (c *compiler) delete(stmt *cql.Delete) (*modification, error) {
	if err := c.checkModifiable(kindDelete); err != nil {
		return nil, err
	}
	if err := c.checkCounterModification(stmt.Using, stmt.IfExists, len(stmt.Conditions)); err != nil {
		return nil, err
	}
	m := &modification{kind: kindDelete, table: c.Table}
	for _, t := range stmt.Targets {
		o, err := c.deletion(t)
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
	deletesStatic := len(m.static) > 0 && len(m.regular) == 0
	onlyStatic := deletesStatic && (!m.conditional() || !m.conditions.regular())
	rs, err := c.restrictions(stmt.Where, restrictionOptions{kind: kindDelete, onlyStatic: onlyStatic})
	if err != nil {
		return nil, err
	}
	full := len(rs.missingClustering()) == 0 &&
		!slices.ContainsFunc(rs.clustering, func(r *restriction) bool { return r.kind == restrictSlice })
	const equalities = "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to "
	switch {
	case full:
	case m.conditional() && !deletesStatic:
		return nil, invalidf(equalities + "delete non static columns")
	case m.conditional() && m.conditions.regular():
		return nil, invalidf(equalities + "use IF condition on non static columns")
	case len(m.regular) > 0:
		return nil, invalidf("Range deletions are not supported for specific columns")
	}
	m.where = rs
	m.single = rs.isSingle()
	return m, nil
}

func (c *compiler) deletion(t cql.DeleteTarget) (operation, error) {
	col, err := c.column(t.Column)
	if err != nil {
		return nil, err
	}
	if col.Kind == schema.PartitionKey || col.Kind == schema.Clustering {
		return nil, invalidf("Invalid identifier %s for deletion (should not be a PRIMARY KEY part)", col.Name)
	}
	typ := col.Type
	switch {
	case t.Key != nil:
		return c.elementDeletion(col, t.Key)
	case t.Field != "":
		if typ.Kind() != types.UDT {
			return nil, invalidf("Invalid field deletion operation for non-UDT column %s", col.Name)
		}
		if !typ.MultiCell() {
			return nil, invalidf("Frozen UDT column %s does not support field deletions", col.Name)
		}
		i := typ.FieldIndex(t.Field)
		if i < 0 {
			return nil, invalidf("UDT column %s does not have a field named %s", col.Name, t.Field)
		}
		return &deleteField{target{col}, i}, nil
	}
	return &deleteColumn{target{col}}, nil
}

func (c *compiler) elementDeletion(col *schema.Column, key cql.Term) (operation, error) {
	typ := col.Type
	if !typ.IsCollection() {
		return nil, invalidf("Invalid deletion operation for non collection column %s", col.Name)
	}
	if !typ.MultiCell() {
		return nil, invalidf("Invalid deletion operation for frozen collection column %s", col.Name)
	}
	spec := c.Receiver("key("+col.Name+")", typ.Elems()[0])
	switch typ.Kind() {
	case types.List:
		spec = c.Receiver("idx("+col.Name+")", types.Native(types.Int))
	case types.Set:
		spec = c.Receiver("value("+col.Name+")", typ.Elems()[0])
	}
	k, err := c.Term(key, spec)
	if err != nil {
		return nil, err
	}
	if typ.Kind() == types.List {
		return &deleteIndex{readingTarget{target{col}}, k}, nil
	}
	return &deleteKey{target{col}, k}, nil
}
