package node

import (
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
