package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The overlay replaces the only file of the package with the switches: a program that is built without the overlay has
// none of them.
const (
	switchName    = "cqldmutant"
	switchImport  = "cqld/internal/mutant"
	switchFile    = "internal/mutant/mutant.go"
	switchEnviron = "CQLD_MUTANT"
)

// switchSource is the start of the package with the switches. The constant last and the map ids follow it.
const switchSource = `// Package mutant says which faults are switched on.
package mutant

import (
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// Atomic, because goroutines of an earlier test may still run when the next one sets it.
var active = begin()

func begin() (on [last + 1]atomic.Bool) {
	// 0 is no mutant, so an unset variable switches none on.
	id, _ := strconv.Atoi(os.Getenv("` + switchEnviron + `"))
	on[id].Store(true)
	return on
}

// On says whether mutant id is switched on.
func On(id int) bool { return active[id].Load() }

// Pick returns b when mutant id is switched on, and a otherwise.
func Pick[T any](id int, a, b T) T {
	if On(id) {
		return b
	}
	return a
}

// Need switches the mutants with the given keys on, and all others off, until the test ends. Then it restores the
// switches of before: a parent test may have called Need, or the environment variable may name a mutant.
func Need(t testing.TB, keys ...string) {
	t.Helper()
	var wanted, before [last + 1]bool
	// All keys are checked before the first switch, so that a wrong key changes nothing.
	for _, key := range keys {
		if ids[key] == 0 {
			t.Fatalf("there is no mutant %s", key)
		}
		wanted[ids[key]] = true
	}
	// Setenv refuses parallel tests, which would share the switches. The variable keeps its value: processes that the
	// test starts have the mutant that it names, if any.
	t.Setenv("` + switchEnviron + `", os.Getenv("` + switchEnviron + `"))
	for id := range active {
		before[id] = active[id].Swap(wanted[id])
	}
	t.Cleanup(func() {
		for id, on := range before {
			active[id].Store(on)
		}
	})
}

`

// switches returns the source of the package with the switches.
func (c *catalog) switches() []byte {
	// The ids are compiled in, so binaries and the catalog that built them belong together.
	b := bytes.NewBufferString(switchSource)
	fmt.Fprintf(b, "const last = %d\n\nvar ids = map[string]int{\n", len(c.mutants))
	for _, m := range c.mutants {
		fmt.Fprintf(b, "%q: %d,\n", m.key, m.id)
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// switchCall returns the source of a condition that is true if a mutant is on. For example cqldmutant.On(17).
func switchCall(id int) string { return fmt.Sprintf("%s.On(%d)", switchName, id) }

// pickCall returns the source of a value: b if a mutant is on, and otherwise a. Both values are evaluated, so they must
// have no effects.
func pickCall(id int, a, b string) string {
	return fmt.Sprintf("%s.Pick(%d, %s, %s)", switchName, id, a, b)
}

// writeOverlay writes the changed files to dir, with the file that "go build -overlay" takes. The overlay maps paths of
// the module to copies below dir; "go build -overlay" reads the copies in their place and caches packages by their
// content. For example {"Replace": {"/src/cqld/row/merge.go":
// "/src/cqld/.tools/mutants/src/row/merge.go"}}.
func (c *catalog) writeOverlay(dir string) (path string, err error) {
	// Files of an earlier catalog must not stay.
	if err := os.RemoveAll(filepath.Join(dir, "src")); err != nil {
		return "", err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	// The go command compares paths of the overlay with absolute ones.
	put := func(name string, text []byte) error {
		at := filepath.Join(dir, "src", filepath.FromSlash(name))
		overlay.Replace[filepath.Join(c.root, filepath.FromSlash(name))] = at
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		return os.WriteFile(at, text, 0o644)
	}
	if err := put(switchFile, c.switches()); err != nil {
		return "", err
	}
	for _, files := range c.packages {
		for _, f := range files {
			// Such a file is compiled as it is.
			if len(f.edits) == 0 {
				continue
			}
			if err := put(f.path, f.rewritten()); err != nil {
				return "", err
			}
		}
	}
	b, err := json.MarshalIndent(overlay, "", "\t")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, b, 0o644)
}

// scenarioPackages are the packages with tests of their own that look for mutants. Quick ones should come first in
// their layer; order sorts them by measured time as well. The simulation is not among them: it runs afterwards, by
// seeds.
func scenarioPackages() []string {
	return []string{"row", "ring", "coordinator/quorum", "coordinator/resolve", "counters/shard", "repair",
		"coordinator/write", "coordinator", "paxos/acceptor", "paxos", "hints", "batchlog", "counters", "listing",
		"watermark", "search", "storage/index", "storage", "replica", "rebalance", "cluster/raftlog",
		"cluster/metadata", "cluster"}
}

// simPackage has the simulation.
const simPackage = "simulation"

// build compiles the test binaries with all switches in them. Vet is off, as switches look like mistakes to it. An
// error contains the output of the compiler. A binary has all mutants, so a mutant costs no compilation.
func (c *catalog) build(ctx context.Context, dir string, packages []string) error {
	overlay, err := c.writeOverlay(dir)
	if err != nil {
		return err
	}
	// One after the other: the go command itself compiles the dependencies on all cores.
	for _, p := range packages {
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary(dir, p),
			"./"+p)
		cmd.Dir = c.root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("mutants: build %s: %w\n%s", p, err, out)
		}
	}
	return nil
}

// binary is where the tests of a package are.
func binary(dir, pkg string) string {
	// All binaries are in one directory, so the path of the package becomes a name.
	return filepath.Join(dir, strings.ReplaceAll(pkg, "/", "-")+".test")
}

// dependents returns, for each package, the directories whose code its test contains. The keys are packages, and the
// inner keys directories of the module. A test that does not contain the changed code cannot find the mutant and is not
// run. It takes the dependencies of the tests, which may be more than what the package needs.
func (c *catalog) dependents(ctx context.Context, packages []string) (map[string]map[string]bool, error) {
	out := map[string]map[string]bool{}
	for _, p := range packages {
		// Without the overlay: switches change no dependencies between the packages of interest.
		cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-test", "-f", "{{.ImportPath}}", "./"+p)
		cmd.Dir = c.root
		text, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("mutants: dependencies of %s: %w", p, err)
		}
		out[p] = map[string]bool{}
		for _, l := range strings.Split(string(text), "\n") {
			name, _, _ := strings.Cut(l, " ") // "cqld/row [cqld/row.test]"
			// Other modules have no mutants.
			if dir, ok := strings.CutPrefix(name, "cqld/"); ok {
				out[p][dir] = true
			}
		}
	}
	return out, nil
}
