package roles

import (
	"slices"

	"cqld/cql"
)

// optionMap converts WITH OPTIONS = {…}. Keys and values are constants.
func (e *execution) optionMap(m *cql.MapLiteral) (map[string]string, error) {
	out := make(map[string]string, len(m.Entries))
	for _, entry := range m.Entries {
		key, ok := constant(entry.Key)
		value, valueOK := constant(entry.Value)
		if !ok || !valueOK {
			return nil, invalidf("OPTIONS must be a map of constants")
		}
		if !slices.Contains(e.o.Config.Options, key) {
			return nil, invalidf("Unknown option '%s'", key)
		}
		out[key] = value
	}
	return out, nil
}

func constant(t cql.Term) (string, bool) {
	literal, ok := t.(*cql.Literal)
	if !ok || literal.Kind == cql.LiteralNull {
		return "", false
	}
	return literal.Text, true
}
