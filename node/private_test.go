package node

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"cqld/node/config"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestTheDataDirectoryIsPrivate removes the access of other users from a directory.
func TestTheDataDirectoryIsPrivate(t *testing.T) {
	for _, before := range []os.FileMode{0, 0o755, 0o700} {
		dir := filepath.Join(t.TempDir(), "data")
		if before != 0 {
			if err := os.Mkdir(dir, before); err != nil {
				t.Fatal(err)
			}
		}
		if err := makePrivate(dir, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("mode %o before, %o after", before, info.Mode().Perm())
		}
	}
}

// TestDirectoriesSurviveAPowerFailure creates directories whose ancestors exist or do not exist, and drops everything
// that was not synced.
func TestDirectoriesSurviveAPowerFailure(t *testing.T) {
	for _, dir := range []string{"data", "a/data", "a/b/c/data", "/data", "/a/b/data"} {
		disk := vfs.NewCrashableMem()
		for range 2 { // the second time, the directory exists
			if err := makeDurable(disk, dir); err != nil {
				t.Fatal(err)
			}
		}
		f, err := disk.Create(disk.PathJoin(dir, "file"), vfs.WriteCategoryUnspecified)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close(), syncDir(disk, dir))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := disk.CrashClone(vfs.CrashCloneCfg{}).Stat(disk.PathJoin(dir, "file")); err != nil {
			t.Errorf("a synced file in %s is lost: %v", dir, err)
		}
	}
}

// TestFirstStartSurvivesAPowerFailure crashes a node after its first start. It must remain the same node: one that has
// lost its directories would create a new cluster.
func TestFirstStartSurvivesAPowerFailure(t *testing.T) {
	disk := vfs.NewCrashableMem()
	open := func(disk vfs.FS) *Node {
		o := config.Default()
		o.ListenAddress = netip.MustParseAddr("127.0.85.1")
		o.RPCAddress, o.FS, o.DataDir, o.ControlSocket = o.ListenAddress, disk, "new/node", false
		o.CacheBytes, o.Logger = 8<<20, slog.New(slog.DiscardHandler)
		n, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := open(disk)
	host := n.cluster.HostID()
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = open(crashed)
	defer n.Close(t.Context())
	if n.cluster.HostID() != host {
		t.Fatal("the node has another host id after a power failure")
	}
}
