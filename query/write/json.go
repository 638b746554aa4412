package write

import (
	"slices"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/restriction"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// jsonValues is the JSON object of an INSERT … JSON, with a value for each column of the table.
type jsonValues struct {
	text    term.Term
	columns []*schema.Column
	// missing is the value of a column that the object does not contain: null or unset.
	missing wire.ValueKind
}

// jsonTerm is one column's value of the object.
type jsonTerm struct{ index int }

func (t *jsonTerm) Eval(s *term.Scope) (wire.Value, error) { return s.JSON[t.index], nil }

func (c *compiler) insertJSON(stmt *cql.InsertJSON) (*Modification, error) {
	if err := c.checkModifiable(restriction.Insert); err != nil {
		return nil, err
	}
	m := &Modification{kind: restriction.Insert, table: c.Table}
	m.json = &jsonValues{columns: c.Table.Columns(), missing: wire.ValueNull}
	if stmt.DefaultUnset {
		m.json.missing = wire.ValueUnset
	}
	var err error
	if m.json.text, err = c.Term(stmt.Value, c.Receiver("[json]", types.Native(types.Text))); err != nil {
		return nil, err
	}
	keys := keyTerms{}
	for i, col := range m.json.columns {
		t := &jsonTerm{i}
		if col.Kind == schema.PartitionKey || col.Kind == schema.Clustering {
			keys[col] = t
			continue
		}
		m.addOperation(setOperation(col, t))
	}
	if err := c.insertKeys(m, keys); err != nil {
		return nil, err
	}
	if m.conditions, err = c.compileConditions(false, stmt.IfNotExists, nil, stmt.Using); err != nil {
		return nil, err
	}
	return m, c.using(m, stmt.Using)
}

// eval parses the object and sets its values in the scope. It reserves memory for that, unless reserve is nil.
func (j *jsonValues) eval(s *term.Scope, reserve func(copies, n int) error) error {
	v, err := j.text.Eval(s)
	if err == nil && reserve != nil {
		err = reserve(jsonCopies, len(v.Bytes))
	}
	if err != nil {
		return err
	}
	if v.Kind == wire.ValueNull {
		return invalid.Errorf("Got null for INSERT JSON values")
	}
	object, err := types.ParseJSON(v.Bytes)
	if err != nil {
		return invalid.Errorf("Could not decode JSON string as a map: %v. (String was: %s)", err, v.Bytes)
	}
	if object.IsNull() {
		return invalid.Errorf("Got null for INSERT JSON values")
	}
	members, ok := object.Members()
	if !ok {
		return invalid.Errorf("Could not decode JSON string as a map: it is not an object. (String was: %s)", v.Bytes)
	}
	s.JSON = make([]wire.Value, len(j.columns))
	for i := range s.JSON {
		s.JSON[i].Kind = j.missing
	}
	for i := range members {
		m := &members[i]
		name := m.CQLName()
		at := slices.IndexFunc(j.columns, func(c *schema.Column) bool { return c.Name == name })
		if at < 0 {
			return invalid.Errorf("JSON values map contains unrecognized column: %s", name)
		}
		b, err := j.columns[at].Type.FromJSONValue(&m.Value)
		if err != nil {
			return invalid.Errorf("Error decoding JSON value for %s: %v", name, err)
		}
		s.JSON[at] = wire.BytesValue(b)
	}
	return nil
}
