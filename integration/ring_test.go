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

// shared is shared by the tests of one run: the binary, and a ring to which no test injects faults.
var shared struct {
	once sync.Once
	dir  string
	err  error

	ringOnce sync.Once
	ring     *process.Ring
	ringErr  error
}

// ringStart bounds the time in which a ring of four agrees; on an idle machine it takes less than three seconds.
const ringStart = 60 * time.Second

// builtVariable is the environment variable by which a test passes the directory of the built server to the process in
// which it runs again. That process leaves the directory.
const builtVariable = "CQLD_TEST_BUILT"

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.ring != nil {
		shared.ring.Stop()
	}
	if os.Getenv(builtVariable) != "" {
		os.Exit(code)
	}
	if shared.dir != "" && code == 0 {
		os.RemoveAll(shared.dir)
	} else if shared.dir != "" {
		fmt.Fprintln(os.Stderr, "logs and data of the servers:", shared.dir)
	}
	os.Exit(code)
}

// cqld builds the server once and returns its path and a directory for data, on the repository's disk. When the test
// ends without a failure, its own directory in there is removed: those of all tests would be more than 20 GB.
func cqld(t *testing.T) (binary, dir string) {
	t.Helper()
	shared.once.Do(func() {
		if shared.dir = os.Getenv(builtVariable); shared.dir != "" {
			return
		}
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
	t.Cleanup(func() { // servers are stopped by cleanups that are registered later, and so run earlier
		if !t.Failed() {
			_ = os.RemoveAll(filepath.Join(shared.dir, t.Name())) // TestMain removes the rest
		}
	})
	return filepath.Join(shared.dir, "cqld"), shared.dir
}

// startRing starts a ring for one test and stops it at the end of the test.
func startRing(t *testing.T, o process.Options) *process.Ring {
	t.Helper()
	binary, _ := cqld(t)
	return startRingOf(t, binary, o)
}

// startRingOf is startRing with a binary that may be another build.
func startRingOf(t *testing.T, binary string, o process.Options) *process.Ring {
	t.Helper()
	_, dir := cqld(t)
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

// sharedRing returns the ring of four to which no test injects faults.
func sharedRing(t *testing.T) *process.Ring {
	t.Helper()
	binary, dir := cqld(t)
	shared.ringOnce.Do(func() {
		r, err := process.NewRing(binary, filepath.Join(dir, "shared"), process.Options{Nodes: 4,
			YAML: []string{"drop_compact_storage_enabled: true", "dynamic_data_masking_enabled: true"}})
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

// ringAddress returns the CQL address of one of its nodes, or of the node that CQLD_ADDRESS names.
func ringAddress(t *testing.T) string {
	if address := os.Getenv("CQLD_ADDRESS"); address != "" {
		return address
	}
	return sharedRing(t).Servers[0].Address
}

// missing skips a test that needs a tool, or fails it if CI=true.
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
