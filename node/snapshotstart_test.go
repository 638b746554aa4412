package node

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/node/config"
)

// TestStartsFromASnapshotOfTheLog restarts a node after so many changes of the metadata that the log begins with a
// snapshot, which is loaded before most parts of the node exist.
func TestStartsFromASnapshotOfTheLog(t *testing.T) {
	r := openNodes(t, 195, 1, func(o *config.Options) { o.FS = vfs.NewCrashableMem() })
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	r.query(c, "CREATE TABLE k.t (k int PRIMARY KEY, v int)")
	const changes = 560 // the log is compacted after 512 commands
	for i := range changes {
		r.query(c, fmt.Sprintf("ALTER TABLE k.t WITH comment = '%d'", i))
	}
	r.kill(0, nil)
	c = r.connect(0)
	r.query(c, "INSERT INTO k.t (k, v) VALUES (1, 1)")
	if got := r.nodes[0].cluster.Metadata().Schema.Table("k", "t").Options.Comment; got != fmt.Sprint(changes-1) {
		t.Errorf("the comment is %q after the restart", got)
	}
}
