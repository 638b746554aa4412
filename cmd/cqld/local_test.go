package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLocalKeepsTheDatacentersOfItsNodes starts rings of 1 to 8 nodes, divided in every possible way, again with every
// other division: each of these starts is refused, names the option that is accepted, and changes no file.
func TestLocalKeepsTheDatacentersOfItsNodes(t *testing.T) {
	prepare := func(dir string, nodes, centers int, fresh bool) error {
		c := localCommand{Nodes: nodes, Datacenters: centers, DataDir: dir, Fresh: fresh}
		var members []member
		for i := range nodes {
			members = append(members, member{index: i + 1, address: "127.0.69.1", port: 9042, storage: 7000,
				center: c.center(i), dir: filepath.Join(dir, fmt.Sprint("node", i+1))})
		}
		return c.prepareData(members)
	}
	configs := func(dir string, nodes int) (all []string) {
		for i := range nodes {
			b, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("node", i+1), nodeConfig))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(b))
		}
		return all
	}
	refused := 0
	for nodes := 1; nodes <= 8; nodes++ {
		for first := 1; first <= nodes; first++ {
			if nodes%first != 0 {
				continue
			}
			dir := t.TempDir()
			if err := prepare(dir, nodes, first, false); err != nil {
				t.Fatal(err)
			}
			before := configs(dir, nodes)
			for i, c := range before {
				if want := fmt.Sprintf("datacenter: datacenter%d\n", i/(nodes/first)+1); !strings.Contains(c, want) {
					t.Errorf("node %d of %d in %d data centers has not %q:\n%s", i+1, nodes, first, want, c)
				}
			}
			for next := 1; next <= nodes; next++ {
				if nodes%next != 0 {
					continue
				}
				err := prepare(dir, nodes, next, false)
				if next == first && err != nil {
					t.Errorf("%d nodes in %d data centers start once: %v", nodes, first, err)
				}
				if next == first {
					continue
				}
				refused++
				want := fmt.Sprintf("use --datacenters %d, --fresh or another --data-dir", first)
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
					t.Errorf("%d nodes in %d data centers, and then in %d: %v, want %q", nodes, first, next, err, want)
				}
				if after := configs(dir, nodes); strings.Join(after, "") != strings.Join(before, "") {
					t.Errorf("a refused start has changed the configuration of %d nodes", nodes)
				}
			}
			other := nodes // another division
			if first == nodes {
				other = 1
			}
			if err := prepare(dir, nodes, other, true); err != nil {
				t.Errorf("--fresh: %v", err)
			}
		}
	}
	if refused == 0 {
		t.Error("no start was refused")
	}
}
