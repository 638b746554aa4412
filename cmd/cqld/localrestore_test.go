package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIncompleteCopiesAreContinuedOnly prepares rings in directories with a ring, with the incomplete copy of a backup
// and with nothing: only the command that began a copy continues it, and --fresh begins anything.
func TestIncompleteCopiesAreContinuedOnly(t *testing.T) {
	for _, c := range []struct {
		name, there, restoring string
		ring, fresh            bool
		want                   string
	}{
		{name: "a new ring"},
		{name: "a ring starts again", ring: true},
		{name: "a new copy", restoring: "a"},
		{name: "a copy over a ring", ring: true, restoring: "a", want: "holds a ring"},
		{name: "a copy instead of a ring", ring: true, restoring: "a", fresh: true},
		{name: "the same copy", there: "a", ring: true, restoring: "a"},
		{name: "another copy", there: "a", ring: true, restoring: "b", want: "holds an incomplete copy of a backup, a"},
		{name: "another copy instead", there: "a", ring: true, restoring: "b", fresh: true},
		{name: "the ring of a copy", there: "a", ring: true, want: "holds an incomplete copy of a backup, a"},
		{name: "a ring instead of a copy", there: "a", ring: true, fresh: true},
	} {
		dir := t.TempDir()
		members := []member{{index: 1, address: "127.0.69.1", port: 9042, storage: 7000, center: "datacenter1",
			dir: filepath.Join(dir, "node1")}}
		if c.ring {
			first := localCommand{Nodes: 1, Datacenters: 1, DataDir: dir, Restoring: c.there}
			if err := first.prepareData(members); err != nil {
				t.Fatal(err)
			}
		}
		next := localCommand{Nodes: 1, Datacenters: 1, DataDir: dir, Fresh: c.fresh, Restoring: c.restoring}
		err := next.prepareData(members)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		want := c.restoring
		if err != nil { // nothing was changed
			want = c.there
		}
		if b, _ := os.ReadFile(incompleteFile(dir)); string(b) != want {
			t.Errorf("%s: the file has %q, want %q", c.name, b, want)
		}
	}
}

// TestDetachedRingsHaveTheFlagsOfTheCommand parses the command line of the process that --detach starts.
func TestDetachedRingsHaveTheFlagsOfTheCommand(t *testing.T) {
	for _, args := range []string{"local", "local start --nodes 6 --datacenters 2 --data-dir a",
		"local --port 1 --tables-port 0 --storage-port 3 --fresh --secure --log-level debug --restoring {a}",
	} {
		var given, started commands
		if _, err := newParser(t.Context(), &given).Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if _, err := newParser(t.Context(), &started).Parse(given.Local.Start.arguments()); err != nil {
			t.Fatal(err)
		}
		want, got := given.Local.Start, started.Local.Start
		for _, ports := range [][2]*uint16{{want.Port, got.Port}, {want.TablesPort, got.TablesPort},
			{want.StoragePort, got.StoragePort}} {
			if (ports[0] == nil) != (ports[1] == nil) || ports[0] != nil && *ports[0] != *ports[1] {
				t.Errorf("%s: a port is %v, want %v", args, ports[1], ports[0])
			}
		}
		want.Port, want.TablesPort, want.StoragePort = nil, nil, nil
		got.Port, got.TablesPort, got.StoragePort = nil, nil, nil
		want.Supervised = true
		if got != want {
			t.Errorf("%s: %+v, want %+v", args, got, want)
		}
	}
}
