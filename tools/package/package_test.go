package main

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The binary, the package and the image of this system, which all tests use.
var built *release

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "cqld-package-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	if built, err = newRelease(ctx, "../..", dir, "", "linux/"+runtime.GOARCH); err != nil {
		return 1, err
	}
	built.quick = true
	if err := errors.Join(os.Chmod(dir, 0o755), built.clean(), built.buildBinaries(ctx),
		built.buildAll(ctx)); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// buildAll makes everything from the binaries.
func (r *release) buildAll(ctx context.Context) error {
	return errors.Join(r.buildNotices(ctx), r.buildDebs(ctx), r.buildImage(ctx), r.buildDeployment(ctx),
		r.writeChecksums(ctx))
}

// need skips a test if a program is missing, or fails it in continuous integration.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed", program)
		}
		t.Skipf("%s is not installed", program)
	}
}

// command runs a program and returns its output.
func command(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestBinaryIsStatic(t *testing.T) {
	f, err := elf.Open(built.binary(built.targets[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary has a segment %v", p.Type)
		}
	}
}

// TestOutputsAreReproducible makes the outputs again, in another directory and at another time.
func TestOutputsAreReproducible(t *testing.T) {
	again := *built
	again.out = t.TempDir()
	for _, b := range again.targets {
		text, err := os.ReadFile(built.binary(b))
		if err == nil {
			err = os.WriteFile(again.binary(b), text, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := again.buildAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	read := func(r *release) string {
		b, err := os.ReadFile(filepath.Join(r.out, checksumsFile))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if a, b := read(built), read(&again); a != b || strings.Count(a, "\n") != 5 {
		t.Errorf("checksums differ:\n%s\n%s", a, b)
	}
	need(t, "sha256sum")
	command(t, built.out, "sha256sum", "--check", "--quiet", checksumsFile)
}

func TestVersions(t *testing.T) {
	for version, ok := range map[string]bool{"1.2.3": true, "1.2.3~rc1": true, "v1": false, "1-2": false,
		"1/2": false} {
		if _, err := newRelease(t.Context(), "../..", t.TempDir(), version, "linux/amd64"); (err == nil) != ok {
			t.Errorf("%s: %v", version, err)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	r, err := newRelease(t.Context(), "../..", t.TempDir(), "1", "linux/amd64")
	if err != nil || !r.epoch.Equal(time.Unix(1000000000, 0)) {
		t.Errorf("%v, %v", r, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := newRelease(t.Context(), "../..", t.TempDir(), "1", "linux/amd64"); err == nil {
		t.Error("a date that is no number was accepted")
	}
}

// TestCleanRemovesOnlyOutputs checks that other files of dist/ are kept.
func TestCleanRemovesOnlyOutputs(t *testing.T) {
	r := *built
	r.out = t.TempDir()
	for _, name := range []string{"cqld-1-linux-amd64", "cqld_1_amd64.deb", checksumsFile, "mine.txt"} {
		if err := os.WriteFile(filepath.Join(r.out, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.clean(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(r.out)
	if err != nil || len(left) != 1 || left[0].Name() != "mine.txt" {
		t.Errorf("left: %v, %v", left, err)
	}
}

// node is a running node under test.
type node struct {
	cmd    *exec.Cmd
	log    bytes.Buffer
	exited chan error
}

// startNode starts a node. It is killed at the end of the test unless it was stopped.
func startNode(t *testing.T, cmd *exec.Cmd) *node {
	t.Helper()
	n := &node{cmd: cmd, exited: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = &n.log, &n.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { n.exited <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have exited
	})
	return n
}
