package transcript

import (
	"fmt"
	"time"

	"cqld/integration/cqlclient"
)

// traceLimit bounds the wait for a trace, which servers may write after the answer.
const traceLimit = 20 * time.Second

// withTrace renders an answer and, if the block requests it, its trace. The order is the answer first, then the line of
// the trace.
func (rq *request) withTrace(c *cqlclient.Conn, a *cqlclient.Answer) (string, error) {
	trace, err := rq.trace(c, a)
	return rq.render(a) + trace, err
}

// trace renders the session of the answer's trace, beginning with a newline. It is empty unless the block requests
// traces. Events are not shown: their messages are specific to each server. The duration and the times of events differ
// in every run.
func (rq *request) trace(c *cqlclient.Conn, a *cqlclient.Answer) (string, error) {
	switch {
	case rq.traceID:
		return shownID(a), nil
	// The usual case.
	case !rq.options.Tracing && a.TracingID == nil:
		return "", nil
	case a.TracingID == nil:
		return "\nnot traced", nil
	// A server may trace a part of all requests by itself.
	case !rq.options.Tracing:
		return "\ntraced without a request", nil
	}
	const query = "SELECT command, request, parameters, duration FROM system_traces.sessions WHERE session_id = ?"
	o := cqlclient.Options{Values: []cqlclient.Value{{Bytes: a.TracingID}}}
	for end := time.Now().Add(traceLimit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		s, err := c.Query(query, o)
		if err != nil {
			return "", err
		}
		if s.Err != nil {
			return "", s.Err
		}
		// The session is complete when it has its request and its duration. Cassandra writes the session in two steps,
		// with the duration at the end.
		if len(s.Rows) == 1 && s.Rows[0][1] != nil && s.Rows[0][3] != nil {
			row := s.Rows[0]
			return fmt.Sprintf("\ntrace: %s | %s | %s", s.Columns[0].Type.Text(row[0]), s.Columns[1].Type.Text(row[1]),
				s.Columns[2].Type.Text(row[2])), nil
		}
	}
	return "\nthe trace is missing", nil
}
