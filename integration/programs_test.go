//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cqld/integration/process"
)

// programTime bounds a program; the longest one takes ten seconds on an idle machine.
const programTime = 3 * time.Minute

// programs lists the applications of drivers/go-programs, and how many checks each of them makes at least.
var programs = []struct {
	name   string
	checks int
}{
	{"workflow", 6}, {"visibility", 5}, {"mapper", 24}, {"vectors", 4}, {"orm", 9}, {"migrations", 8}, {"mixes", 7},
}

// TestPrograms executes programs that use the server as applications do. They must pass at Cassandra, too: CQLD_ORACLE
// names a node.
func TestPrograms(t *testing.T) {
	s := serversUnderTest(t)
	_, dir := cqld(t)
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "go-programs")
	build := exec.Command("go", "build", "-C", filepath.Join(root, "integration/drivers"), "-o", binary,
		"./go-programs")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			runChecks(t, s, "prg_"+p.name, p.checks, binary, p.name)
		})
	}
}

// tools lists programs in Go whose clients need a module of their own, and how many checks each of them makes at least.
var tools = []struct {
	name   string
	checks int
}{
	{"go-ycsb", 14}, {"go-gocqlx", 15},
}

// TestTools executes those programs.
func TestTools(t *testing.T) {
	s := serversUnderTest(t)
	_, dir := cqld(t)
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range tools {
		t.Run(p.name, func(t *testing.T) {
			module := filepath.Join(root, "integration/drivers", p.name)
			if p.name == "go-ycsb" {
				t.Setenv("CQLD_YCSB_WORKLOADS", filepath.Join(goCommand(t, module, "list", "-m", "-f", "{{.Dir}}",
					"github.com/pingcap/go-ycsb"), "workloads"))
			}
			binary := filepath.Join(dir, p.name)
			goCommand(t, module, "build", "-o", binary, ".")
			runChecks(t, s, "prg_"+strings.ReplaceAll(p.name, "-", "_"), p.checks, binary)
		})
	}
}

// goCommand executes the go command in a directory and returns its output.
func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", args[0], err, failure.String())
	}
	return strings.TrimSpace(string(out))
}

// TestModels executes the models of the Python driver's object mapper.
func TestModels(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	if !exists(filepath.Join(root, ".tools/python.stamp")) {
		missing(t, "the Python driver", fmt.Sprintf(installHint, "python"))
	}
	runChecks(t, serversUnderTest(t), "prg_models", 11, filepath.Join(root, ".tools/python/bin/python"),
		filepath.Join(root, "integration/drivers/python/models.py"))
}

// runChecks executes a program that prints a line for each of its checks, as drivers/README.md describes, and makes
// each a subtest.
func runChecks(t *testing.T, s servers, keyspace string, least int, argv ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), programTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "CQLD_CONTACT_POINTS="+s.addresses, fmt.Sprintf("CQLD_NODES=%d", s.nodes),
		fmt.Sprintf("CQLD_RF=%d", s.rf), "CQLD_KEYSPACE="+keyspace)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	checks := 0
	for _, line := range strings.Split(string(out), "\n") {
		verdict, rest, _ := strings.Cut(line, " ")
		if verdict != "ok" && verdict != "fail" {
			continue
		}
		checks++
		name, message, _ := strings.Cut(rest, " ")
		t.Run(name, func(t *testing.T) {
			if verdict == "fail" {
				t.Error(message)
			}
		})
	}
	if checks < least {
		t.Errorf("%d checks ran, of %d: %v\n%s", checks, least, err, out)
	} else if err != nil && !t.Failed() {
		t.Errorf("%v\n%s", err, out)
	}
}
