//go:build integration

package integration

import (
	"fmt"
	"testing"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// TestDroppedTableIsRestored drops a table and a keyspace on a ring of processes, kills all of them, and restores both
// while one of them is down. Afterwards each node has all rows.
func TestDroppedTableIsRestored(t *testing.T) {
	t.Parallel()
	const rows = 100
	ring := startRing(t, process.Options{Nodes: 3, YAML: []string{"drop_grace: 1h"}})
	c := dialServer(t, ring.Servers[0])
	query(t, c, "CREATE KEYSPACE kept WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		cqlclient.Options{})
	query(t, c, "CREATE TABLE kept.t (k int PRIMARY KEY, v int)", cqlclient.Options{})
	const all = 5 // the number of ALL in the protocol
	for k := range rows {
		query(t, c, fmt.Sprintf("INSERT INTO kept.t (k, v) VALUES (%d, 1)", k), cqlclient.Options{Consistency: all})
	}
	query(t, c, "CREATE KEYSPACE whole WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		cqlclient.Options{})
	query(t, c, "CREATE TABLE whole.t (k int PRIMARY KEY, v int)", cqlclient.Options{})
	for k := range rows {
		query(t, c, fmt.Sprintf("INSERT INTO whole.t (k, v) VALUES (%d, 1)", k), cqlclient.Options{Consistency: all})
	}
	query(t, c, "DROP TABLE kept.t", cqlclient.Options{})
	query(t, c, "DROP KEYSPACE whole", cqlclient.Options{})
	for _, s := range ring.Servers {
		s.Kill()
	}
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	ring.Servers[2].Kill()
	c = dialServer(t, ring.Servers[1])
	query(t, c, "UNDROP TABLE kept.t", cqlclient.Options{})
	query(t, c, "UNDROP KEYSPACE whole AS again", cqlclient.Options{})
	holds(t, ring.Servers[0], "kept.t", rows)
	if err := ring.Servers[2].Start(); err != nil {
		t.Fatal(err)
	}
	if err := ring.WaitAgreed(ringStart); err != nil {
		t.Fatal(err)
	}
	for _, s := range ring.Servers {
		holds(t, s, "kept.t", rows)
		holds(t, s, "again.t", rows)
	}
}
