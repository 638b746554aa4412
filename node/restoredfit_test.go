package node

import (
	"fmt"
	"strings"
	"testing"

	"cqld/node/config"
	"cqld/node/control"
)

// TestKeyspacesOfOtherDataCentersAreFitted restores a keyspace whose replicas are in a data center that the ring does
// not have. Without FitReplication, its rows would be restored nowhere: it is refused, and nothing is changed.
func TestKeyspacesOfOtherDataCentersAreFitted(t *testing.T) {
	location := "file://" + t.TempDir()
	r := openNodes(t, 238, 1, func(o *config.Options) {
		onDisk(o)
		o.Datacenter = "eu"
	})
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE a WITH replication = {'class': 'NetworkTopologyStrategy', 'eu': 3}")
	r.query(c, "CREATE TABLE a.t (k int PRIMARY KEY)")
	r.query(c, "INSERT INTO a.t (k) VALUES (7)")
	if _, err := r.backup(0, control.BackupArgs{Location: location}); err != nil {
		t.Fatal(err)
	}

	other := openNodes(t, 239, 2, onDisk)
	for _, dry := range []bool{true, false} {
		_, err := other.restore(0, control.RestoreArgs{Location: location, DryRun: dry})
		want := "in the data centers [eu], and this ring has only [datacenter1]"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dry run %v: %v", dry, err)
		}
	}
	if other.nodes[0].cluster.Metadata().Schema.Keyspace("a") != nil {
		t.Error("a refused restoration has created a keyspace")
	}
	if _, err := other.restore(0, control.RestoreArgs{Location: location, FitReplication: true}); err != nil {
		t.Fatal(err)
	}
	c = other.connect(1)
	keyspace := other.query(c, "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = 'a'").Rows
	if !strings.Contains(string(keyspace[0][0]), "datacenter1") {
		t.Errorf("the replication is %q", keyspace)
	}
	for i := range other.nodes {
		if rows := other.query(other.connect(i), "SELECT k FROM a.t").Rows; len(rows) != 1 || rows[0][0][3] != 7 {
			t.Errorf("node %d has %v", i, rows)
		}
	}
}

// TestCellsOfDroppedColumnsAreNotRestored restores a table whose last column was dropped, and one with all of its
// columns. The columns that are added then get the number of the dropped one, and must not show its cells.
func TestCellsOfDroppedColumnsAreNotRestored(t *testing.T) {
	location := "file://" + t.TempDir()
	r := openNodes(t, 240, 1, onDisk)
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	for _, table := range []string{"dropped", "whole"} {
		r.query(c, "CREATE TABLE a."+table+" (k int PRIMARY KEY, v int, last int)")
		r.query(c, "INSERT INTO a."+table+" (k, v, last) VALUES (1, 2, 3)")
	}
	r.query(c, "ALTER TABLE a.dropped DROP last")
	if _, err := r.backup(0, control.BackupArgs{Location: location}); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]string{"dropped": `["\x00\x00\x00\x02" ""]`,
		"whole": `["\x00\x00\x00\x02" "\x00\x00\x00\x03"]`} {
		_, err := r.restore(0, control.RestoreArgs{Location: location, Tables: []string{"a." + table},
			As: "a.restored_" + table})
		if err != nil {
			t.Fatal(err)
		}
		if table == "dropped" {
			r.query(c, "ALTER TABLE a.restored_dropped ADD last int")
		}
		rows := r.query(c, "SELECT v, last FROM a.restored_"+table+" WHERE k = 1").Rows
		if got := fmt.Sprintf("%q", rows[0]); got != want {
			t.Errorf("%s: %s, want %s", table, got, want)
		}
	}
}
