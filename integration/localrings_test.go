//go:build integration

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"cqld/integration/process"
	"cqld/internal/syncbuf"
)

// localWorld executes cqld as a user does who has one working directory and one home directory.
type localWorld struct {
	t                 *testing.T
	binary, dir, home string
}

func newLocalWorld(t *testing.T) *localWorld {
	binary, dir := cqld(t)
	// as a process sees its directory, which the output has
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := &localWorld{t, binary, filepath.Join(dir, t.Name()), filepath.Join(dir, t.Name()+"-home")}
	for _, d := range []string{w.dir, w.home} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *localWorld) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.binary, args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "HOME="+w.home, "XDG_CACHE_HOME="+filepath.Join(w.home, "cache"))
	return cmd
}

// run executes a command, and checks its exit status and that its output contains a text.
func (w *localWorld) run(ok bool, want string, args ...string) string {
	w.t.Helper()
	out, err := w.command(args...).CombinedOutput()
	if (err == nil) != ok || !strings.Contains(string(out), want) {
		w.t.Errorf("cqld %s: %v, want %q\n%s", strings.Join(args, " "), err, want, out)
	}
	return string(out)
}

// processes returns the ids of processes of nodes whose configuration is in the working directory.
func (w *localWorld) processes() (ids []string) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, path := range all {
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), w.dir) && strings.Contains(string(b), "start") {
			ids = append(ids, filepath.Base(filepath.Dir(path)))
		}
	}
	return ids
}

// ended waits until no process of a node runs.
func (w *localWorld) ended(after string) {
	w.t.Helper()
	for end := time.Now().Add(30 * time.Second); len(w.processes()) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("after %s, these processes still run: %v", after, w.processes())
		}
	}
}

// TestLocalRingsSideBySide starts two rings with --detach on one machine: the second one chooses other ports. `ctl`,
// `local status` and `local stop` find them, each ring keeps its ports, and no process remains.
func TestLocalRingsSideBySide(t *testing.T) {
	w := newLocalWorld(t)
	second := filepath.Join(w.dir, "second")
	defer w.command("local", "stop", "--data-dir", second).Run()
	defer w.command("local", "stop").Run()
	w.run(false, "no ring runs, and there is none in", "local", "status")
	out := w.run(true, "Stop it with: cqld local stop\n", "local", "--nodes", "2", "--detach")
	w.run(true, "UN  127.0.0.2", "ctl", "status")
	w.run(false, "runs already", "local", "--nodes", "2", "--detach")
	w.run(true, "cqld ctl --data-dir "+second+" status", "local", "--nodes", "1", "--detach", "--data-dir", second)
	port := regexp.MustCompile(`127\.0\.0\.1:(\d+)`)
	ports := map[string]string{}
	for _, dir := range []string{filepath.Join(w.dir, "cqld-data"), second} {
		address := port.FindString(w.run(true, "running", "local", "status", "--data-dir", dir))
		if err := process.Ask(address, "SELECT release_version FROM system.local"); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		ports[dir] = address
	}
	if ports[second] == ports[filepath.Join(w.dir, "cqld-data")] || !strings.Contains(out, "127.0.0.2:") {
		t.Errorf("the rings have the addresses %v", ports)
	}
	w.run(true, "2 of 2 nodes", "local", "stop")
	w.run(true, "UN  127.0.0.1", "ctl", "status") // the only ring that runs
	w.run(true, "1 of 1 nodes", "local", "stop")
	w.ended("local stop")
	w.run(true, ports[second], "local", "--nodes", "1", "--detach", "--data-dir", second)
	w.run(true, "", "ctl", "stopdaemon")
	w.ended("stopdaemon")
	w.run(false, "stopped", "local", "status", "--data-dir", second)
}

// TestLocalKnowsNodesStartedByHand kills a node of a ring and starts it by hand: the ring reports that, and Ctrl-C
// stops the node as well. When the process of the ring is killed, its nodes end.
func TestLocalKnowsNodesStartedByHand(t *testing.T) {
	w := newLocalWorld(t)
	start := func() (*exec.Cmd, *syncbuf.Buffer) {
		cmd := w.command("local", "--nodes", "2")
		out := &syncbuf.Buffer{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		w.until(out, "Press Ctrl-C")
		return cmd, out
	}
	cmd, out := start()
	line := regexp.MustCompile(`UN +\S+ +2 +\S+ +(\d+)`).FindStringSubmatch(out.String())
	if line == nil {
		t.Fatalf("no process of node 2:\n%s", out)
	}
	if err := exec.Command("kill", "-9", line[1]).Run(); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(w.dir, "cqld-data", "node2", "cqld.yaml")
	w.until(out, "cqld start --config "+config)
	byHand := w.command("start", "--config", config)
	handOut := &syncbuf.Buffer{}
	byHand.Stdout, byHand.Stderr = handOut, handOut
	if err := byHand.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { byHand.Process.Kill() })
	handEnded := make(chan error, 1)
	go func() { handEnded <- byHand.Wait() }()
	w.until(out, "runs again, started by hand")
	w.until(handOut, "cqld is ready.")
	w.until(handOut, "  cqlsh 127.0.0.2")
	cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v\n%s", err, out)
	}
	if err := <-handEnded; err != nil {
		t.Errorf("the node that was started by hand: %v\n%s", err, handOut)
	}
	w.ended("Ctrl-C")

	cmd, _ = start()
	cmd.Process.Kill()
	cmd.Wait()
	w.ended("the kill of cqld local")
}

// until waits until the output of a process contains a text.
func (w *localWorld) until(out fmt.Stringer, text string) {
	w.t.Helper()
	for end := time.Now().Add(ringStart); !strings.Contains(out.String(), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("no %q in:\n%s", text, out)
		}
	}
}
