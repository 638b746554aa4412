package query

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
	// traceBoundMax is the number of characters of a bound value that a trace shows, as in Cassandra.
	traceBoundMax = 1000
	// traceParametersBytesMax bounds the text of the statement, and separately the bound values, that a session
	// shows: a statement may have 16 MiB and 65,535 values.
	traceParametersBytesMax = 64 << 10
	// traceRedacted replaces the values of sensitive columns.
	traceRedacted = "*******"
)

// traceParameters describes the statement of a session, in the column parameters of system_traces.sessions.
type traceParameters struct {
	Levels   *traceLevels // nil for PREPARE
	PageSize int32        // 0 means no paging
	Text     string
	Bound    []term.Marker // markers of a prepared statement; Values has their values
	Values   []wire.Value
}

// traceLevels are the consistency levels of a statement.
type traceLevels struct{ Consistency, Serial ring.Consistency }

// Append appends the parameters as a value of the type map<text, text>. The keys are Cassandra's. AppendParts sorts
// them.
func (p *traceParameters) Append(dst []byte) ([]byte, error) {
	var parts [][]byte
	if p.Levels != nil {
		parts = append(parts, []byte("consistency_level"), []byte(p.Levels.Consistency.String()),
			[]byte("serial_consistency_level"), []byte(p.Levels.Serial.String()))
	}
	if p.PageSize > 0 {
		parts = append(parts, []byte("page_size"), []byte(strconv.Itoa(int(p.PageSize))))
	}
	if p.Text != "" {
		parts = append(parts, []byte("query"), []byte(shortenTrace(p.Text)))
	}
	// left is the number of bytes that remain for names and values of bound variables.
	left := traceParametersBytesMax
	for i, m := range p.Bound[:min(len(p.Bound), len(p.Values))] {
		name, value := fmt.Appendf(nil, "bound_var_%d_%s", i, m.Spec.Name), traceBound(&m.Spec, p.Values[i])
		// Values beyond the bound are omitted, not cut.
		if left -= len(name) + len(value); left < 0 {
			break
		}
		parts = append(parts, name, value)
	}
	traceText := types.Native(types.Text)
	return types.NewMap(traceText, traceText, false).AppendParts(dst, parts)
}

// shortenTrace returns the beginning of a text that is too long for a trace. It drops a character that would be cut.
func shortenTrace(traceText string) string {
	if len(traceText) <= traceParametersBytesMax {
		return traceText
	}
	return strings.ToValidUTF8(traceText[:traceParametersBytesMax], "") + "..."
}

// traceBound returns a bound value as Cassandra shows it in traces, including the quote after the dots of a long one.
func traceBound(spec *term.Spec, v wire.Value) []byte {
	switch v.Kind {
	case wire.ValueUnset:
		return []byte("<unset>")
	case wire.ValueNull:
		return []byte("null")
	}
	// The name of the column shows whether its value is sensitive.
	if cql.Sensitive(spec.Name) {
		return []byte(traceRedacted)
	}
	b := spec.Type.AppendLiteral(nil, v.Bytes)
	if n := utf8.RuneCount(b); n <= traceBoundMax {
		return b
	}
	return append([]byte(string([]rune(string(b))[:traceBoundMax])), "...'"...)
}
