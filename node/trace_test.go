package node

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/internal/await"
	"cqld/ring"
)

// tracedEvent is a row of system_traces.events.
type tracedEvent struct {
	source, activity, thread string
	elapsed                  int32
}

// trace executes a traced request and reads its events in order.
func (r *inProcess) trace(c *cqlclient.Conn, f func(cqlclient.Options) (*cqlclient.Answer, error)) (id string,
	events []tracedEvent) {
	r.t.Helper()
	a, err := f(cqlclient.Options{Consistency: 4, Tracing: true}) // QUORUM
	if err != nil || a.Err != nil || len(a.TracingID) != 16 {
		r.t.Fatalf("%+v, %v", a, err)
	}
	id = ring.HostID(a.TracingID).String()
	// A trace is written at ONE, so only a read of both replicas is guaranteed to find it.
	text := "SELECT source, activity, thread, source_elapsed FROM system_traces.events WHERE session_id = " + id
	found, err := send(c, text, cqlclient.Options{Consistency: 4})
	if err != nil {
		r.t.Fatalf("%s: %v", text, err)
	}
	for _, row := range found.Rows {
		source, _ := netip.AddrFromSlice(row[0])
		events = append(events, tracedEvent{source.String(), string(row[1]), string(row[2]),
			int32(binary.BigEndian.Uint32(row[3]))})
	}
	return id, events
}

// A trace has the events of all contacted replicas, including those that the consistency level did not need.
func TestTracesHaveTheEventsOfReplicas(t *testing.T) {
	r := openNodes(t, 65, 4, nil)
	c := r.connect(0)
	r.fill(c, "4", 4)
	r.query(c, "CREATE TABLE k.c (a int PRIMARY KEY, n counter)")
	query := func(text string) func(cqlclient.Options) (*cqlclient.Answer, error) {
		return func(o cqlclient.Options) (*cqlclient.Answer, error) { return c.Query(text, o) }
	}
	for _, test := range []struct {
		text     string
		replicas int    // those besides the coordinator that have events
		activity string // of each of them
	}{
		{"INSERT INTO k.t (a, v) VALUES (1, 2)", 3, "Applying mutation of k.t"},
		{"SELECT * FROM k.t WHERE a = 1", 2, "Executing single-partition query on k.t"},
		{"SELECT * FROM k.t", 2, "Executing range query on k.t for ("},
		{"UPDATE k.t SET v = 2 WHERE a = 1 IF v = 2", 3, "Received paxos commit"},
		{"UPDATE k.c SET n = n + 1 WHERE a = 1", 3, "Received mutation"},
		{"BEGIN BATCH INSERT INTO k.t (a, v) VALUES (1, 4); INSERT INTO k.t (a, v) VALUES (2, 4); APPLY BATCH", 3,
			"Applying mutation of k.t"},
	} {
		var events []tracedEvent
		sources := map[string]bool{}
		// A trace does not wait long for replicas that the level did not need, so a busy machine may need another one.
		if !await.Reached(time.Minute, func() bool {
			_, events = r.trace(c, query(test.text))
			clear(sources)
			for _, e := range events {
				if e.thread == "" || e.elapsed < 0 || strings.Contains(e.activity, "node ") {
					t.Errorf("%s: %+v", test.text, e)
				}
				if e.source != "127.0.65.1" && strings.HasPrefix(e.activity, test.activity) {
					sources[e.source] = true
				}
			}
			return len(sources) >= test.replicas
		}) {
			t.Errorf("%s: events %q are of %q only:\n%s", test.text, test.activity, slices.Sorted(maps.Keys(sources)),
				inLines(events))
		}
	}
	var events []tracedEvent
	places := func(node string) (sent, received int) {
		sent = slices.IndexFunc(events, func(e tracedEvent) bool {
			return e.source == "127.0.65.1" && e.activity == "Sending mutation to /"+node+":7000"
		})
		received = slices.IndexFunc(events, func(e tracedEvent) bool {
			return e.source == node && e.activity == "Received mutation"
		})
		return sent, received
	}
	others := []string{"127.0.65.2", "127.0.65.3", "127.0.65.4"}
	await.Reached(time.Minute, func() bool {
		_, events = r.trace(c, query("INSERT INTO k.t (a, v) VALUES (3, 2)"))
		return !slices.ContainsFunc(others, func(node string) bool { _, received := places(node); return received < 0 })
	})
	for _, node := range others {
		if sent, received := places(node); sent < 0 || received < sent {
			t.Errorf("sent to %s by event %d, received by event %d:\n%s", node, sent, received, inLines(events))
		}
	}
}

func inLines(events []tracedEvent) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s %d %s\n", e.source, e.elapsed, e.activity)
	}
	return b.String()
}
