//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"cqld/integration/process"
)

// shared is what the tests of one run have in common: the binary, and a ring that no test harms.
var shared struct {
	once sync.Once
	dir  string
	err  error

	ringOnce sync.Once
	ring     *process.Ring
	ringErr  error
}

// ringStart is how long a ring of four may take to agree; it takes under three seconds on an idle machine.
const ringStart = 60 * time.Second

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.ring != nil {
		shared.ring.Stop()
	}
	if shared.dir != "" && code == 0 {
		os.RemoveAll(shared.dir)
	} else if shared.dir != "" {
		fmt.Fprintln(os.Stderr, "logs and data of the servers:", shared.dir)
	}
	os.Exit(code)
}

// cqld builds the server once and returns its path and a directory for data, on the repository's disk.
func cqld(t *testing.T) (binary, dir string) {
	t.Helper()
	shared.once.Do(func() {
		root, err := process.Root()
		if err == nil {
			err = os.MkdirAll(filepath.Join(root, ".tools"), 0o755)
		}
		if err == nil {
			shared.dir, err = os.MkdirTemp(filepath.Join(root, ".tools"), "integration-")
		}
		if err == nil {
			_, err = process.Build(context.Background(), shared.dir)
		}
		shared.err = err
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return filepath.Join(shared.dir, "cqld"), shared.dir
}

// startRing starts a ring of the test's own and stops it with the test.
func startRing(t *testing.T, o process.Options) *process.Ring {
	t.Helper()
	binary, dir := cqld(t)
	r, err := process.NewRing(binary, filepath.Join(dir, t.Name()), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

// sharedRing is the ring of four that no test harms.
func sharedRing(t *testing.T) *process.Ring {
	t.Helper()
	binary, dir := cqld(t)
	shared.ringOnce.Do(func() {
		r, err := process.NewRing(binary, filepath.Join(dir, "shared"), process.Options{Nodes: 4})
		if err == nil {
			err = r.Start(ringStart)
		}
		shared.ring, shared.ringErr = r, err
	})
	if shared.ringErr != nil {
		t.Fatal(shared.ringErr)
	}
	return shared.ring
}

// ringAddress is the CQL address of one node of it, or of the node that CQLD_ADDRESS names.
func ringAddress(t *testing.T) string {
	if address := os.Getenv("CQLD_ADDRESS"); address != "" {
		return address
	}
	return sharedRing(t).Servers[0].Address
}

// missing skips a test that needs a tool, or fails it where nothing may be left out.
func missing(t *testing.T, tool, install string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing: %s", tool, install)
	}
	t.Skipf("%s is missing: %s", tool, install)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
