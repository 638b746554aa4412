package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/node/config"
	"cqld/node/control"
)

// TestQueriesAreShownAndKilled ends a scan that another node executes, by the id that system_views.queries shows.
func TestQueriesAreShownAndKilled(t *testing.T) {
	r := openNodes(t, 182, 2, func(o *config.Options) {
		o.Timeouts.Range, o.Timeouts.Read = 30*time.Second,
			30*time.Second
	})
	n, c, operator := r.nodes[0], r.connect(0), r.connect(0)
	var scan slowScan
	ask := r.cqlScan(c)
	r.faults[1].set(func() { r.faults[1].table, r.faults[1].scan = r.tableOf("k.t"), scan.run })
	answered := make(chan error, 1)
	go func() { answered <- ask(context.Background()) }()
	r.eventually("the scan begins", func() bool { return scan.steps.Load() > 5 })

	shown := map[string]string{} // ids by task
	for _, row := range r.query(operator, "SELECT task, thread_id FROM system_views.queries").Rows {
		shown[string(row[0])] = string(row[1])
	}
	var id string
	for task := range shown {
		if strings.Contains(task, "k.t") {
			id = shown[task]
		}
	}
	if id == "" || shown["QUERY SELECT task, thread_id FROM system_views.queries"] == "" || len(shown) != 2 {
		t.Fatalf("the queries in progress are %v", shown)
	}
	for _, wrong := range []string{"Native-Transport-Requests-0", "99999", "k.t"} {
		var e *control.Error
		if _, err := n.commands.Clients.KillQuery(t.Context(), control.QueryArgs{ID: wrong}, nil); !errors.As(err, &e) {
			t.Errorf("kill %s: %v", wrong, err)
		}
	}
	if _, err := n.commands.Clients.KillQuery(t.Context(), control.QueryArgs{ID: id}, nil); err != nil {
		t.Fatal(err)
	}
	err := <-answered
	var failure *cqlclient.Error
	var refusal *refused
	if errors.As(err, &refusal) {
		failure = refusal.answer
	}
	if failure == nil || failure.Code != 0x2200 || !strings.Contains(failure.Message, "was ended by an operator") {
		t.Errorf("the client receives %v", err)
	}
	r.eventually("the scan ends", func() bool { return scan.running.Load() == 0 })
	if killed := n.servers.CQL().Killed(); killed != 1 || n.panics() != 0 {
		t.Errorf("%d requests were killed, with %d panics", killed, n.panics())
	}
	r.query(c, "SELECT key FROM system.local")
}
