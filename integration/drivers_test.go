//go:build integration

package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cqld/integration/process"
)

// driver is one program of drivers/: how to execute it, and the file that shows whether it is installed.
type driver struct {
	name    string
	argv    []string
	env     []string
	file    string
	install string
	rolls   bool // it has the program "rolling"
	scripts bool // it has the program "script"
}

const installHint = "run tools/install.sh %s"

// drivers lists the programs; root is the repository.
func drivers(root string) []driver {
	src, tools := filepath.Join(root, "integration/drivers"), filepath.Join(root, ".tools")
	in := func(parts ...string) string { return filepath.Join(parts...) }
	return []driver{
		{name: "go-gocql", argv: []string{"go", "run", "-C", src, "./go-gocql"}, rolls: true, scripts: true},
		{name: "go-apache", argv: []string{"go", "run", "-C", src, "./go-apache"}, rolls: true, scripts: true},
		{name: "python", argv: []string{in(tools, "python/bin/python"), in(src, "python/suite.py")},
			file: in(tools, "python.stamp"), rolls: true, scripts: true},
		{name: "node", argv: []string{"node", in(src, "node/suite.js")},
			env: []string{"NODE_PATH=" + in(tools, "node/node_modules")}, file: in(tools, "node.stamp")},
		{name: "java", argv: []string{"java", "-Xmx256m", "-cp", in(tools, "java/lib/*") + ":" +
			in(tools, "java/classes"), "Suite"}, file: in(tools, "java/classes/Suite.class"), rolls: true},
		{name: "rust", argv: []string{in(tools, "rust/debug/cqld-driver-suite")},
			file: in(tools, "rust/debug/cqld-driver-suite")},
	}
}

// servers are the servers with which the drivers are tested.
type servers struct {
	addresses string
	nodes, rf int
}

// serversUnderTest returns the shared ring, or the Cassandra node that CQLD_ORACLE names: the suites must pass there,
// too.
func serversUnderTest(t *testing.T) servers {
	if oracle := os.Getenv("CQLD_ORACLE"); oracle != "" {
		return servers{oracle, 1, 1}
	}
	return servers{sharedRing(t).Addresses(), 4, 3}
}

// command returns the driver's process for one of its programs.
func (d driver) command(ctx context.Context, root, program string, s servers) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.argv[0], append(append([]string{}, d.argv[1:]...), program)...)
	cmd.Dir = root
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(append(os.Environ(), d.env...), "CQLD_CONTACT_POINTS="+s.addresses,
		fmt.Sprintf("CQLD_NODES=%d", s.nodes),
		fmt.Sprintf("CQLD_RF=%d", s.rf), "CQLD_KEYSPACE=drv_"+program+"_"+strings.ReplaceAll(d.name, "-", "_"))
	return cmd
}

// TestDrivers executes every driver's suite; each of its checks is a subtest.
func TestDrivers(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range drivers(root) {
		t.Run(d.name, func(t *testing.T) {
			if err := d.installed(); err != nil {
				missing(t, "the "+d.name+" driver", err.Error())
			}
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			out, err := d.command(ctx, root, "suite", serversUnderTest(t)).CombinedOutput()
			checks := 0
			for _, line := range strings.Split(string(out), "\n") {
				verdict, rest, _ := strings.Cut(line, " ")
				name, message, _ := strings.Cut(rest, " ")
				switch verdict {
				case "ok", "fail", "skip":
				default:
					continue
				}
				checks++
				t.Run(name, func(t *testing.T) {
					switch verdict {
					case "fail":
						t.Error(message)
					case "skip":
						t.Skip(message)
					}
				})
			}
			if checks < 15 {
				t.Errorf("%d checks ran, of 15 and more: %v\n%s", checks, err, out)
			} else if err != nil && !t.Failed() {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// event is a line that a failover program prints.
type event struct {
	at   time.Time
	kind string // ready, acked, error, missing, done
	text string
}

// number returns the first number in the text.
func (e event) number() (n int) {
	fmt.Sscan(e.text, &n) // zero if there is none
	return n
}

// follow reads a failover program's output until it ends.
func follow(out io.Reader, events chan<- event) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		kind, text, _ := strings.Cut(lines.Text(), " ")
		e := event{at: time.Now(), kind: kind, text: text}
		if kind == "acked" || kind == "error" {
			var ms int64
			if _, err := fmt.Sscan(text, &ms); err == nil {
				e.at = time.UnixMilli(ms)
			}
		}
		events <- e
	}
	close(events)
}
