package node

import (
	"strconv"

	"cqld/node/admin"
	"cqld/query/system"
)

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
		out = append(out, system.Query{ThreadID: admin.QueryPrefix + strconv.FormatUint(q.ID, 10), Queued: q.Queued,
			Running: q.Running, Task: q.Task})
	}
	return out
}
