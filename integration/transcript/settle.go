package transcript

import (
	"fmt"
	"strings"
	"time"

	"cqld/integration/cqlclient"
)

// settleLimit bounds the wait for the build of an index or a view.
const settleLimit = 20 * time.Second

// settled is run, and waits for what servers build in the background: it repeats a query by an index that is not built
// yet, and returns from CREATE MATERIALIZED VIEW when the view is complete. Tests would otherwise depend on how fast a
// server builds. The waits end after settleLimit.
func (rq *request) settled(c *cqlclient.Conn, keyspace, statement string) (string, error) {
	end := time.Now().Add(settleLimit)
	text, err := rq.run(c, statement)
	// After the limit, the error is the answer.
	for err == nil && strings.Contains(text, "INDEX_NOT_AVAILABLE") && time.Now().Before(end) {
		time.Sleep(50 * time.Millisecond)
		text, err = rq.run(c, statement)
	}
	// The answer of a creation is "created table keyspace.view".
	if words := strings.Fields(text); err == nil && len(words) == 3 && words[0] == "created" &&
		strings.Contains(statement, "MATERIALIZED VIEW") {
		_, view, _ := strings.Cut(words[2], ".")
		query := fmt.Sprintf("SELECT view_name FROM system.built_views WHERE keyspace_name = '%s' AND view_name = "+
			"'%s'", keyspace, view)
		for time.Now().Before(end) {
			a, err := c.Query(query, cqlclient.Options{})
			if err != nil || a.Err != nil || len(a.Rows) > 0 {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return text, err
}
