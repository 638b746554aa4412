package node

import (
	"log/slog"
	"net/netip"
	"testing"

	"cqld/node/config"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestFirstStartSurvivesAPowerFailure crashes a node after its first start. It must remain the same node: one that has
// lost its directories would create a new cluster.
func TestFirstStartSurvivesAPowerFailure(t *testing.T) {
	disk := vfs.NewCrashableMem()
	open := func(disk vfs.FS) *Node {
		o := config.Default()
		o.Listen.Address = netip.MustParseAddr("127.0.85.1")
		o.Listen.RPCAddress, o.FS, o.DataDir, o.Listen.ControlSocket = o.Listen.Address, disk, "new/node", false
		o.Memory.CacheBytes, o.Logger = 8<<20, slog.New(slog.DiscardHandler)
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
