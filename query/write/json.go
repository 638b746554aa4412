package write

import (
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/query/restriction"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// jsonValues is the JSON object of an INSERT … JSON, with a value for each column of the table. It is compiled like an
// INSERT that names all columns. Their values are jsonTerms, which read the scope that eval has filled.
type jsonValues struct {
	// text is the JSON text: a literal or a marker.
	text term.Term
	// columns contains all columns of the table, in the order of the values in term.Scope.JSON.
	columns []*schema.Column
	// index maps names to positions in columns.
	index map[string]int
	// missing is the value of a column that the object does not contain: null or, with DEFAULT UNSET, unset. Null
	// deletes the stored value.
	missing wire.ValueKind
}

// jsonTerm is one column's value of the object: the index of the column in jsonValues.columns.
type jsonTerm struct{ index int }

// Eval implements term.Term. jsonValues.eval has filled s.JSON.
func (t *jsonTerm) Eval(s *term.Scope) (wire.Value, error) { return s.JSON[t.index], nil }

// insertJSON compiles INSERT … JSON. Because the object assigns every column, there are no defaults and no compact
// value.
func (c *compiler) insertJSON(stmt *cql.InsertJSON) (*Modification, error) {
	if err := c.checkModifiable(restriction.Insert); err != nil {
		return nil, err
	}
	m := &Modification{kind: restriction.Insert, table: c.Table}
	m.json = &jsonValues{columns: c.Table.Columns(), index: map[string]int{}, missing: wire.ValueNull}
	if stmt.DefaultUnset {
		m.json.missing = wire.ValueUnset
	}
	var err error
	// The receiver is called [json], as in Cassandra's metadata.
	if m.json.text, err = c.DecodedTerm(stmt.Value, c.Receiver("[json]", types.Native(types.Text))); err != nil {
		return nil, err
	}
	keys := keyTerms{}
	for i, col := range m.json.columns {
		t := &jsonTerm{i}
		m.json.index[col.Name] = i
		if col.Kind == schema.PartitionKey || col.Kind == schema.Clustering {
			keys[col] = t
			continue
		}
		m.addOperation(setOperation(col, t))
	}
	// Key values are checked when they are evaluated; a key column that the object omits is null.
	if err := c.insertKeys(m, keys); err != nil {
		return nil, err
	}
	if m.conditions, err = c.compileConditions(false, stmt.IfNotExists, nil, stmt.Using); err != nil {
		return nil, err
	}
	return m, c.using(m, stmt.Using)
}

// eval parses the object and sets its values in the scope. It reserves memory for that, unless reserve is nil. Errors
// are *invalid.Error with the parser's reason, with Cassandra's message where known.
func (j *jsonValues) eval(s *term.Scope, reserve func(copies, n int) error) error {
	v, err := j.text.Eval(s)
	if err == nil && reserve != nil {
		// Reserve before the parser allocates, because its result is many times larger than the text.
		err = reserve(1, function.JSONBytes(v.Bytes))
	}
	if err != nil {
		return err
	}
	// An unset marker has no bytes, so the parser rejects it.
	if v.Kind == wire.ValueNull {
		return invalid.Errorf("Got null for INSERT JSON values")
	}
	object, err := types.ParseJSON(v.Bytes)
	if err != nil {
		return invalid.Errorf("Could not decode JSON string as a map: %v. (String was: %s)", err, v.Bytes)
	}
	// The JSON null is as invalid as a null value.
	if object.IsNull() {
		return invalid.Errorf("Got null for INSERT JSON values")
	}
	members, ok := object.Members()
	if !ok {
		return invalid.Errorf("Could not decode JSON string as a map: it is not an object. (String was: %s)", v.Bytes)
	}
	s.JSON = make([]wire.Value, len(j.columns))
	for i := range s.JSON {
		// Every column has a value before the members are assigned.
		s.JSON[i].Kind = j.missing
	}
	for i := range members {
		// Names are case-insensitive unless quoted in the object: CQLName applies that rule.
		m := &members[i]
		name := m.CQLName()
		// Columns that compact storage hides are not in the index.
		at, ok := j.index[name]
		if !ok {
			return invalid.Errorf("JSON values map contains unrecognized column: %s", name)
		}
		// If a member occurs twice, the last one wins.
		b, err := j.columns[at].Type.FromJSONValue(&m.Value, s.Env.NowMillis)
		if err != nil {
			return invalid.Errorf("Error decoding JSON value for %s: %v", name, err)
		}
		// A JSON null becomes nil bytes, which BytesValue makes a null value.
		s.JSON[at] = wire.BytesValue(b)
	}
	return nil
}
