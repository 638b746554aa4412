package trace

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/term"
	"cqld/ring"
	"cqld/types"
)

const (
	// boundTextMax is the number of characters of a bound value that a trace shows, as in Cassandra.
	boundTextMax = 1000
	// parametersBytesMax bounds the statement and the bound values that a session shows, each: a statement may have 16
	// MiB, and 65,535 values.
	parametersBytesMax = 64 << 10
	// redacted replaces the values of sensitive columns.
	redacted = "*******"
)

// Parameters are what a session shows of its statement.
type Parameters struct {
	Levels   *Levels // nil for PREPARE, which has none
	PageSize int32   // 0 means no pages
	Text     string
	Bound    []term.Marker // of a prepared statement, with Values
	Values   []wire.Value
}

// Levels are the consistency levels of a statement.
type Levels struct{ Consistency, Serial ring.Consistency }

// Append appends the parameters as a value of the type map<text, text>.
func (p *Parameters) Append(dst []byte) ([]byte, error) {
	var parts [][]byte
	if p.Levels != nil {
		parts = append(parts, []byte("consistency_level"), []byte(p.Levels.Consistency.String()),
			[]byte("serial_consistency_level"), []byte(p.Levels.Serial.String()))
	}
	if p.PageSize > 0 {
		parts = append(parts, []byte("page_size"), []byte(strconv.Itoa(int(p.PageSize))))
	}
	if p.Text != "" {
		parts = append(parts, []byte("query"), []byte(Shorten(p.Text)))
	}
	left := parametersBytesMax
	for i, m := range p.Bound[:min(len(p.Bound), len(p.Values))] {
		name, value := fmt.Appendf(nil, "bound_var_%d_%s", i, m.Spec.Name), boundText(&m.Spec, p.Values[i])
		if left -= len(name) + len(value); left < 0 {
			break
		}
		parts = append(parts, name, value)
	}
	text := types.Native(types.Text)
	return types.NewMap(text, text, false).AppendParts(dst, parts)
}

// Shorten returns the beginning of a text that is too long for a trace.
func Shorten(text string) string {
	if len(text) <= parametersBytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:parametersBytesMax], "") + "..."
}

// boundText returns a bound value as Cassandra shows it in traces, including the quote after the dots of a long one.
func boundText(spec *term.Spec, v wire.Value) []byte {
	switch v.Kind {
	case wire.ValueUnset:
		return []byte("<unset>")
	case wire.ValueNull:
		return []byte("null")
	}
	if cql.Sensitive(spec.Name) {
		return []byte(redacted)
	}
	b := spec.Type.AppendLiteral(nil, v.Bytes)
	if n := utf8.RuneCount(b); n <= boundTextMax {
		return b
	}
	return append([]byte(string([]rune(string(b))[:boundTextMax])), "...'"...)
}
