package roles

import (
	"slices"

	"cqld/auth"
	"cqld/cql"
	"cqld/query/invalid"
)

// optionMap converts WITH OPTIONS = {…}. Keys and values are constants. Options of Azure Tables accounts are not stored
// as options: out is nil if there are no others, so that those of the role remain.
func (e *execution) optionMap(m *cql.MapLiteral) (out map[string]string, tables *auth.TablesSettings, err error) {
	// A map with nothing but options of Azure Tables leaves out nil, so that the stored options remain.
	given := map[string]string{}
	if !onlyTables(m) {
		out = make(map[string]string, len(m.Entries))
	}
	for _, entry := range m.Entries {
		key, ok := constant(entry.Key)
		value, valueOK := constant(entry.Value)
		if !ok || !valueOK {
			return nil, nil, invalid.Errorf("OPTIONS must be a map of constants")
		}
		// These options become an account of Azure Tables, and are accepted even if the configuration lists no options.
		if isTables(key) {
			given[key] = value
			continue
		}
		if !slices.Contains(e.o.Config.Options, key) {
			return nil, nil, invalid.Errorf("Unknown option '%s'", key)
		}
		out[key] = value
	}
	tables, err = e.tablesSettings(given)
	return out, tables, err
}

// constant returns the text of a literal as written. null, bind markers and function calls are no constants.
func constant(t cql.Term) (string, bool) {
	literal, ok := t.(*cql.Literal)
	if !ok || literal.Kind == cql.LiteralNull {
		return "", false
	}
	return literal.Text, true
}
