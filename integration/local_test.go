//go:build integration

package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cqld/integration/process"
	"cqld/internal/syncbuf"
)

// TestLocal executes "cqld local" as a user does: it starts a ring of four, prints how to connect, ends after Ctrl-C,
// and starts again with its data.
func TestLocal(t *testing.T) {
	binary, dir := cqld(t)
	data := filepath.Join(dir, t.Name())
	for round, statement := range []string{
		"CREATE KEYSPACE local WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE local.t (k int PRIMARY KEY)",
	} {
		cmd := exec.Command(binary, "local", "--nodes", "4", "--port", "19042", "--data-dir", data)
		out := &syncbuf.Buffer{}
		cmd.Stdout, cmd.Stderr = out, out
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		err := errors.New("not tried")
		for end := time.Now().Add(ringStart); err != nil && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			select {
			case <-ended:
				if strings.Contains(out.String(), "is in use") && os.Getenv("CI") != "true" {
					t.Skip("another ring runs on this machine: ", out)
				}
				t.Fatalf("it ended immediately:\n%s", out)
			default:
			}
			if err = errors.New("not ready"); strings.Contains(out.String(), "cqlsh") {
				err = process.Ask("127.0.0.1:19042", statement)
			}
		}
		if err != nil {
			t.Errorf("round %d: %v\n%s", round+1, err, out)
		}
		t.Logf("round %d: the first definition is done after %v", round+1, time.Since(began))
		cmd.Process.Signal(syscall.SIGINT)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("after Ctrl-C: %v\n%s", err, out)
			}
		case <-time.After(30 * time.Second):
			cmd.Process.Kill()
			t.Fatalf("Ctrl-C does not end it:\n%s", out)
		}
	}
}

// TestLocalWithManyNodes starts 32 nodes on a machine with much fewer processors: the command waits while they make
// progress, and a definition reaches all of them.
func TestLocalWithManyNodes(t *testing.T) {
	const limit = 5 * time.Minute
	nodes := 32
	if testing.Short() {
		nodes = 16
	}
	binary, dir := cqld(t)
	cmd := exec.Command(binary, "local", "--nodes", fmt.Sprint(nodes), "--port", "19042", "--tables-port", "0",
		"--data-dir", filepath.Join(dir, t.Name()))
	out := &syncbuf.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill() })
	for !strings.Contains(out.String(), "cqlsh") {
		select {
		case err := <-ended:
			if strings.Contains(out.String(), "is in use") && os.Getenv("CI") != "true" {
				t.Skip("another ring runs on this machine: ", out)
			}
			t.Fatalf("it ended after %v: %v\n%s", time.Since(began), err, out)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Since(began) > limit {
			t.Fatalf("the nodes do not agree within %v\n%s", limit, out)
		}
	}
	t.Logf("%d nodes ready after %v", nodes, time.Since(began))
	if want := fmt.Sprintf("cqld: %d nodes ready", nodes); !strings.Contains(out.String(), want) {
		t.Errorf("it does not report %q:\n%s", want, out)
	}
	for i, statement := range []string{"CREATE KEYSPACE many WITH replication = {'class': 'SimpleStrategy', " +
		"'replication_factor': 3}",
		"CREATE TABLE many.t (k int PRIMARY KEY)", "SELECT k FROM many.t"} {
		address := fmt.Sprintf("127.0.0.%d:19042", 1+i*(nodes-1)/2) // the first, one in the middle, the last
		if err := process.Ask(address, statement); err != nil {
			t.Errorf("%s at %s: %v", statement, address, err)
		}
	}
	cmd.Process.Signal(syscall.SIGINT)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("after Ctrl-C: %v\n%s", err, out)
		}
	case <-time.After(time.Minute):
		t.Fatalf("Ctrl-C does not end it:\n%s", out)
	}
}

// TestLocalSecure executes "cqld local --secure" twice with the same directory, and connects each time with the line
// for cqlsh that it prints. A client without TLS is refused.
func TestLocalSecure(t *testing.T) {
	binary, dir := cqld(t)
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	cqlsh := filepath.Join(root, ".tools/python/bin/cqlsh")
	if _, err := os.Stat(cqlsh); err != nil {
		missing(t, "cqlsh", fmt.Sprintf(installHint, "python"))
	}
	data := filepath.Join(dir, t.Name())
	for round, statements := range []string{
		"CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy'}; CREATE TABLE s.t (k int PRIMARY KEY); " +
			"INSERT INTO s.t (k) VALUES (4711); SELECT k FROM s.t;",
		"SELECT k FROM s.t;",
	} {
		cmd := exec.Command(binary, "local", "--secure", "--nodes", "3", "--port", "19042", "--tables-port", "20002",
			"--data-dir", data)
		out := &syncbuf.Buffer{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for end := time.Now().Add(ringStart); !strings.Contains(out.String(), "Press Ctrl-C") &&
			time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		}
		_, line, _ := strings.Cut(out.String(), "  cqlsh ")
		args, _, printed := strings.Cut(line, "\n")
		shown, err := exec.Command(cqlsh, append(strings.Fields(args), "-e", statements)...).CombinedOutput()
		if !printed || err != nil || !strings.Contains(string(shown), "4711") {
			t.Errorf("round %d: cqlsh %s: %v\n%s\n%s", round+1, args, err, shown, out)
		}
		if err := process.Ask("127.0.0.1:19042", "SELECT k FROM s.t"); err == nil {
			t.Error("a client without TLS is served")
		}
		cmd.Process.Signal(syscall.SIGINT)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("after Ctrl-C: %v\n%s", err, out)
			}
		case <-time.After(30 * time.Second):
			cmd.Process.Kill()
			t.Fatalf("Ctrl-C does not end it:\n%s", out)
		}
	}
}
