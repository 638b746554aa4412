package transcript

import (
	"bytes"
	"fmt"

	"cqld/integration/cqlclient"
)

// frameOption parses an option that sets a field of the frame which drivers do not set, or set to other values. n is
// the number of an option that has one. It reports whether the option has a known name.
func (rq *request) frameOption(name string, values []string, n int64) (known bool, err error) {
	switch name {
	// Unlike "trace", it does not wait for the session of the trace, which Cassandra writes after the answer.
	case "tracing":
		rq.options.Tracing, rq.traceID = true, true
	case "skip":
		rq.options.SkipMeta = true
	// Any bytes, as bound values have them: a state of another server, or none at all.
	case "state":
		rq.options.PagingState, err = encodeBind(values[0])
	case "kind":
		rq.kind = byte(n)
	case "named":
		rq.named = true
	case "unknown":
		rq.unknown = true
	default:
		return false, nil
	}
	return true, err
}

// unknownID is an id of a prepared statement that no server has.
var unknownID = bytes.Repeat([]byte{0x24}, 16)

// batch sends the statements of a block as one BATCH message, with the kind and the options of the block. Its values
// have no names; with the option named, the message has the flag for names and a value with one after its statements.
func (rq *request) batch(c *cqlclient.Conn, statements []boundStatement) (string, error) {
	entries := make([]cqlclient.Statement, 0, len(statements))
	for _, s := range statements {
		if s.err != nil {
			return "", s.err
		}
		e := cqlclient.Statement{Text: s.text, Values: s.binds}
		// A statement that cannot be prepared ends the batch: its error is the answer.
		if rq.prepared {
			a, err := c.PrepareWith(s.text, cqlclient.Options{Keyspace: rq.options.Keyspace})
			if err != nil {
				return "", err
			}
			if a.Err != nil {
				return rq.render(a) + "\n", nil
			}
			e.ID = a.Prepared.ID
		}
		if rq.unknown {
			e.ID = unknownID
		}
		entries = append(entries, e)
	}
	o := rq.options
	// The value is in the parameters of the message, where QUERY has its values.
	if rq.named {
		o.Values = []cqlclient.Value{{Name: "v", Bytes: []byte{0, 0, 0, 1}}}
	}
	a, err := c.Batch(rq.kind, entries, o)
	if err != nil {
		return "", err
	}
	text, err := rq.withTrace(c, a)
	return text + "\n", err
}

// shownID renders whether the answer has the id of a trace. Cassandra writes the session of a trace later, so that
// showing it takes longer.
func shownID(a *cqlclient.Answer) string {
	if len(a.TracingID) == 0 {
		return "\nnot traced"
	}
	return fmt.Sprintf("\ntraced, id of %d bytes", len(a.TracingID))
}
