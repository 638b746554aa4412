package node

import (
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"cqld/cluster/metadata"
	"cqld/internal/await"
	"cqld/node/config"
	"cqld/node/control"
)

// TestFullLocationsFailTheJobUntilSpaceIsFreed makes a backup in a directory without space, or that may not be written.
// The job says what to do, and completes the backup when it is resumed afterwards. A restoration from such a directory
// succeeds.
func TestFullLocationsFailTheJobUntilSpaceIsFreed(t *testing.T) {
	const location = "file:///mnt"
	store := vfs.NewMem()
	if err := store.MkdirAll("/mnt", 0o700); err != nil {
		t.Fatal(err)
	}
	var refused atomic.Pointer[syscall.Errno] // the error of writes; nil means that they succeed
	r := openNodes(t, 246, 1, func(o *config.Options) {
		o.BackupFS = errorfs.Wrap(store, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if err := refused.Load(); err != nil && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return *err
			}
			return nil
		}))
	})
	c := r.connect(0)
	r.fill(c, "1", 20)
	commands := r.nodes[0].commands
	for name, failure := range map[string]struct {
		errno syscall.Errno
		want  string
	}{"full": {syscall.ENOSPC, "the location is full"}, "readonly": {syscall.EROFS, "allow the user that runs cqld"}} {
		refused.Store(&failure.errno)
		_, err := r.backup(0, control.BackupArgs{Location: location, Name: name})
		if err == nil || !strings.Contains(err.Error(), failure.want) || !strings.Contains(err.Error(), location) {
			t.Errorf("%s: %v", name, err)
		}
		all := commands.Jobs.All()
		last := all[len(all)-1]
		if !last.Resumable {
			t.Fatalf("%s: %+v", name, last)
		}
		refused.Store(nil)
		if _, err := commands.Jobs.Resume(t.Context(), control.JobArgs{ID: last.ID}, nil); err != nil {
			t.Fatal(err)
		}
		done, err := commands.Jobs.Watch(t.Context(), control.JobArgs{ID: last.ID}, func(control.Progress) {})
		if err != nil || done.State != "done" {
			t.Fatalf("%s: %+v, %v", name, done, err)
		}
		refused.Store(&failure.errno)
		r.query(c, "DROP KEYSPACE k")
		if _, err := r.restore(0, control.RestoreArgs{Location: location, Name: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if a := r.query(c, "SELECT a, v FROM k.t"); len(a.Rows) != 20 {
			t.Errorf("%s: %d rows were restored", name, len(a.Rows))
		}
		refused.Store(nil)
	}
}

// TestOverdueSchedulesAreShown has a schedule whose location cannot be written to. Each node shows in its status that
// it is overdue, and the node that executes it in the answer of its probe.
func TestOverdueSchedulesAreShown(t *testing.T) {
	store := vfs.NewMem()
	if err := store.MkdirAll("/mnt", 0o700); err != nil {
		t.Fatal(err)
	}
	r := openNodes(t, 247, 2, func(o *config.Options) {
		o.BackupFS = errorfs.Wrap(store, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return syscall.EROFS
			}
			return nil
		}))
	})
	status := func(i int) []control.OverdueSchedule {
		t.Helper()
		s, err := r.nodes[i].commands.Ring.Status(t.Context(), control.KeyspaceArgs{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s.Overdue
	}
	if all := append(status(0), r.nodes[0].commands.Backups.Overdue()...); len(all) > 0 {
		t.Errorf("without schedules, %+v are overdue", all)
	}
	hourAgo := time.Now().Add(-time.Hour).Unix()
	err := r.nodes[1].cluster.ProposeBackupSchedule(t.Context(), &metadata.ScheduleChange{Add: &metadata.BackupSchedule{
		Name: "nightly", Location: "file:///mnt", Every: 60, Created: hourAgo}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.nodes {
		if !await.Reached(time.Minute, func() bool { return len(status(i)) == 1 }) {
			t.Fatalf("node %d shows %+v", i, status(i))
		}
		if o := status(i)[0]; o.Name != "nightly" || o.Last.Unix() != hourAgo {
			t.Errorf("node %d shows %+v", i, o)
		}
	}
	want := "backup schedule nightly is overdue: it has no good backup since " +
		time.Unix(hourAgo, 0).UTC().Format(time.RFC3339)
	if lines := append(r.nodes[0].probes.details(), r.nodes[1].probes.details()...); !slices.Equal(lines,
		[]string{want}) {
		t.Errorf("the probes show %q", lines)
	}
}
