package trace

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"cqld/internal/wire"
	"cqld/query/term"
	"cqld/ring"
	"cqld/types"
)

// boundTextMax is the number of characters of a bound value that a trace shows, as in Cassandra.
const boundTextMax = 1000

// Parameters are what a session shows of its statement.
type Parameters struct {
	Consistency, SerialConsistency ring.Consistency
	PageSize                       int32 // 0 means no pages
	Text                           string
	Bound                          []term.Marker // of a prepared statement, with Values
	Values                         []wire.Value
}

// Append appends the parameters as a value of the type map<text, text>.
func (p *Parameters) Append(dst []byte) ([]byte, error) {
	parts := [][]byte{
		[]byte("consistency_level"), []byte(p.Consistency.String()),
		[]byte("serial_consistency_level"), []byte(p.SerialConsistency.String()),
	}
	if p.PageSize > 0 {
		parts = append(parts, []byte("page_size"), []byte(strconv.Itoa(int(p.PageSize))))
	}
	if p.Text != "" {
		parts = append(parts, []byte("query"), []byte(p.Text))
	}
	for i, m := range p.Bound[:min(len(p.Bound), len(p.Values))] {
		parts = append(parts, fmt.Appendf(nil, "bound_var_%d_%s", i, m.Spec.Name), boundText(&m.Spec, p.Values[i]))
	}
	text := types.Native(types.Text)
	return types.NewMap(text, text, false).AppendParts(dst, parts)
}

// boundText returns a bound value as Cassandra shows it in traces, including the quote after the dots of a long one.
func boundText(spec *term.Spec, v wire.Value) []byte {
	switch v.Kind {
	case wire.ValueUnset:
		return []byte("<unset>")
	case wire.ValueNull:
		return []byte("null")
	}
	b := spec.Type.AppendLiteral(nil, v.Bytes)
	if n := utf8.RuneCount(b); n <= boundTextMax {
		return b
	}
	return append([]byte(string([]rune(string(b))[:boundTextMax])), "...'"...)
}
