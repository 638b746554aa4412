//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// settle is the time in which Cassandra's caches of permissions expire while answers are recorded. cqld needs none.
const settle = 300 * time.Millisecond

// recorder is the driver whose answers -rewrite records.
const recorder = "go-gocql"

// TestFunctionPermissions executes testdata/functions_auth.txt with each driver: permissions on functions and
// aggregates, on a ring with authentication. All drivers must get the answers that were recorded from Cassandra;
// -rewrite records those of the recorder at CQLD_ORACLE_AUTH.
func TestFunctionPermissions(t *testing.T) {
	t.Parallel()
	const path = "testdata/functions_auth.txt"
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	if rewriting() && os.Getenv("CQLD_ORACLE_AUTH") == "" {
		t.Fatal("answers are recorded from Cassandra only: set CQLD_ORACLE_AUTH to its address")
	}
	var steps []string
	datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
		steps = append(steps, strings.Split(d.Input, "\n")...)
		return d.Expected
	})
	s := authenticatingRing(t)
	for _, d := range drivers(root) {
		if !d.scripts || rewriting() && d.name != recorder {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			if err := d.installed(); err != nil {
				missing(t, "the "+d.name+" driver", err.Error())
			}
			answers := d.script(t, root, s, steps)
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
				var b strings.Builder
				for _, step := range strings.Split(d.Input, "\n") {
					answer := answers[0]
					answers = answers[1:]
					if answer != "OK" || !strings.HasPrefix(step, "admin: ") {
						fmt.Fprintf(&b, "%s\n  %s\n", step, answer)
					}
				}
				return b.String()
			})
		})
	}
}

// script executes steps with a driver, and returns their answers.
func (d driver) script(t *testing.T, root string, s servers, steps []string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := d.command(ctx, root, "script", s)
	cmd.Env = append(cmd.Env, "CQLD_USER="+superuser, "CQLD_PASSWORD="+superuserPassword)
	if os.Getenv("CQLD_ORACLE_AUTH") != "" {
		cmd.Env = append(cmd.Env, fmt.Sprintf("CQLD_SETTLE=%d", settle.Milliseconds()))
	}
	cmd.Stdin = strings.NewReader(strings.Join(steps, "\n") + "\n")
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.Output()
	answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || len(answers) != len(steps) {
		t.Fatalf("%d answers, of %d: %v\n%s%s", len(answers), len(steps), err, out, failure.String())
	}
	return answers
}

// authenticatingRing returns a new ring of three nodes with authentication, or the Cassandra node that CQLD_ORACLE_AUTH
// names.
func authenticatingRing(t *testing.T) servers {
	t.Helper()
	if oracle := os.Getenv("CQLD_ORACLE_AUTH"); oracle != "" {
		return servers{oracle, 1, 1}
	}
	binary, dir := cqld(t)
	dir = filepath.Join(dir, t.Name())
	password := filepath.Join(dir, "password")
	ring, err := process.NewRing(binary, dir, process.Options{Nodes: 3,
		Flags: []string{"--superuser", superuser, "--superuser-password-file", password},
		YAML: []string{"authenticator: PasswordAuthenticator", "authorizer: CassandraAuthorizer",
			"dynamic_data_masking_enabled: true"},
		Dial: func(address string) (*cqlclient.Conn, error) {
			return cqlclient.DialAs(address, 4, superuser, superuserPassword)
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(password, []byte(superuserPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	return servers{ring.Addresses(), 3, 3}
}
