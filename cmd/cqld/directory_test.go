package main

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cqld/node"
	"cqld/node/config"
)

// makeNode creates a data directory as `cqld start` does.
func makeNode(t *testing.T, dir string) {
	t.Helper()
	o := config.Default()
	o.DataDir, o.Memory.CacheBytes, o.Logger = dir, 8<<20, slog.New(slog.NewTextHandler(io.Discard, nil))
	o.Listen.Address = netip.MustParseAddr("127.0.69.1")
	o.Listen.RPCAddress = o.Listen.Address
	o.Join.Seeds = []netip.AddrPort{netip.AddrPortFrom(o.Listen.Address, o.Listen.StoragePort)}
	n, err := node.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// local prepares a directory for a ring of two nodes, as `cqld local` does before it starts them.
func local(dir string, fresh bool) error {
	c := localCommand{Nodes: 2, DataDir: dir, Fresh: fresh}
	var members []member
	for i, name := range []string{"node1", "node2"} {
		members = append(members, member{index: i + 1, address: "127.0.69.1", port: 9042, storage: 7000,
			center: "datacenter1", dir: filepath.Join(dir, name)})
	}
	return c.prepareData(members)
}

// start runs `cqld start` with a canceled context, so it returns after the checks of the directory.
func start(t *testing.T, dir string) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	address := "127.0.69.1"
	c := startCommand{DataDir: &dir, ListenAddress: &address, RPCAddress: &address, Seeds: []string{address},
		LogLevel: "error"}
	return c.Run(ctx)
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		out = append(out, e.Name())
	}
	return out
}

// TestStartAndLocalRefuseTheDirectoryOfTheOther checks that `cqld start` and `cqld local`, whose default directory is
// the same, refuse each other's directory without changing it, and that the error names the command that accepts it.
func TestStartAndLocalRefuseTheDirectoryOfTheOther(t *testing.T) {
	alone, ring := filepath.Join(t.TempDir(), "[a]lone*"), filepath.Join(t.TempDir(), "[r]ing*")
	makeNode(t, alone)
	if err := local(ring, false); err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(ring, "node2")
	makeNode(t, filepath.Join(second, "data"))
	refused := func(dir string, err error, before []string, words ...string) {
		t.Helper()
		for _, w := range append(words, dir) {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v, want %q", err, w)
			}
		}
		if now := names(t, dir); !slices.Equal(now, before) {
			t.Errorf("%s has %v, and had %v", dir, now, before)
		}
	}
	for _, fresh := range []bool{false, true} {
		before := names(t, alone)
		refused(alone, local(alone, fresh), before, "cqld start --data-dir ", "give the ring another --data-dir")
		before = names(t, second)
		refused(second, local(second, fresh), before, "cqld start --config "+filepath.Join(second, "cqld.yaml"))
	}
	before := names(t, ring)
	refused(ring, start(t, ring), before, "cqld local --nodes 2 --data-dir ",
		"cqld start --config "+filepath.Join(ring, "node1", "cqld.yaml"))
	before = names(t, second)
	refused(second, start(t, second), before, "cqld start --config "+filepath.Join(second, "cqld.yaml"))

	if err := local(ring, false); err != nil {
		t.Errorf("a ring's directory for the ring: %v", err)
	}
	for _, own := range []string{alone, filepath.Join(second, "data"), filepath.Join(t.TempDir(), "new")} {
		if err := checkNodeDirectory(own); err != nil {
			t.Errorf("a node's directory for the node: %v", err)
		}
	}
	if err := local(ring, true); err != nil {
		t.Errorf("--fresh in a ring's directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(second, "data")); !os.IsNotExist(err) {
		t.Errorf("--fresh keeps the data of an earlier ring: %v", err)
	}
}

// TestSharedDirectoryServesBothCommands checks that a directory in which earlier versions ran both commands works with
// both, each with its own data.
func TestSharedDirectoryServesBothCommands(t *testing.T) {
	dir := t.TempDir()
	if err := local(dir, false); err != nil {
		t.Fatal(err)
	}
	makeNode(t, dir)
	if err := checkRingDirectory(dir); err != nil {
		t.Error(err)
	}
	if err := checkNodeDirectory(dir); err != nil {
		t.Error(err)
	}
}
