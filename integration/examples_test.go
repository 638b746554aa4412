//go:build integration

package integration

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cqld/integration/process"
)

// TestExamples runs each program of examples/ against the ring and compares its output with the file next to it.
func TestExamples(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	ring := sharedRing(t)
	var hosts []string
	for _, s := range ring.Servers {
		host, port, err := net.SplitHostPort(s.Address)
		if err != nil || port != "9042" {
			t.Fatalf("the examples use port 9042, and a node has %s: %v", s.Address, err)
		}
		hosts = append(hosts, host)
	}
	examples := filepath.Join(root, "examples")
	python := func(stamp string) string { return filepath.Join(root, ".tools", stamp, "bin/python") }
	for _, x := range []struct {
		name, want, stamp string
		argv              []string
	}{
		{"gocql", "gocql/output.txt", "", []string{"go", "run", "-C", examples, "./gocql"}},
		{"tables-go", "tables-go/output.txt", "", []string{"go", "run", "-C", examples, "./tables-go"}},
		{"cqldtest", "", "", []string{"go", "test", "-C", examples, "-count=1", "./cqldtest"}},
		{"python", "python/orders.txt", "python", []string{python("python"),
			filepath.Join(examples, "python/orders.py")}},
		{"tables-python", "python/tables.txt", "tables-python",
			[]string{python("tables-python"), filepath.Join(examples, "python/tables.py")}},
	} {
		t.Run(x.name, func(t *testing.T) {
			if x.stamp != "" && !exists(filepath.Join(root, ".tools", x.stamp+".stamp")) {
				missing(t, "the packages of "+x.name, "run tools/install.sh "+x.stamp)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, x.argv[0], x.argv[1:]...)
			cmd.Env = append(os.Environ(), "CQLD_CONTACT_POINTS="+strings.Join(hosts, ","),
				"CQLD_TABLES="+ring.Servers[0].Tables, "PYTHONWARNINGS=ignore", "CGO_ENABLED=0")
			var failure strings.Builder
			cmd.Stderr = &failure
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s%s", err, out, failure.String())
			}
			if x.want == "" {
				return
			}
			want, err := os.ReadFile(filepath.Join(examples, filepath.FromSlash(x.want)))
			if err != nil {
				t.Fatal(err)
			}
			if string(out) != string(want) {
				t.Errorf("printed\n%s\nand not\n%s", out, want)
			}
		})
	}
}
