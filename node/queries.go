package node

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"cqld/node/control"
	"cqld/query/system"
)

// queryPrefix precedes the number of a request in system_views.queries, as in Cassandra.
const queryPrefix = "Native-Transport-Requests-"

// shownQueries returns the requests of CQL clients that this node is executing. It is first called by one of them, so
// the server exists.
func (n *Node) shownQueries() []system.Query {
	s := n.servers.CQL()
	if s == nil {
		return nil
	}
	var texts map[[16]byte]string
	textOf := func(id [16]byte) string {
		if texts == nil {
			texts = map[[16]byte]string{}
			for _, p := range n.processor.PreparedStatements() {
				texts[p.ID] = p.Text
			}
		}
		return texts[id]
	}
	var out []system.Query
	for _, q := range s.InProgress(textOf) {
		out = append(out, system.Query{ThreadID: queryPrefix + strconv.FormatUint(q.ID, 10), Queued: q.Queued,
			Running: q.Running, Task: q.Task})
	}
	return out
}

// opKillQuery ends a request of a CQL client.
func (n *Node) opKillQuery(_ context.Context, a control.QueryArgs, _ control.Report) (control.None, error) {
	id, err := strconv.ParseUint(strings.TrimPrefix(a.ID, queryPrefix), 10, 64)
	if err != nil {
		return control.None{}, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("%q is not the thread_id of a query in system_views.queries, nor its number", a.ID)}
	}
	if s := n.servers.CQL(); s == nil || !s.Kill(id) {
		return control.None{}, &control.Error{Code: control.Refused,
			Message: fmt.Sprintf("Query %d is not in progress on this node", id)}
	}
	return control.None{}, nil
}
