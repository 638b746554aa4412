//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/integration/process"
)

// The superuser of the servers in these tests, as in a new Cassandra.
const (
	superuser         = "cassandra"
	superuserPassword = "cassandra"
)

// authenticating returns the address of a node with authentication: a new one, or the Cassandra node that
// CQLD_ORACLE_AUTH names.
func authenticating(t *testing.T) (address string) {
	t.Helper()
	if oracle := os.Getenv("CQLD_ORACLE_AUTH"); oracle != "" {
		return oracle
	}
	binary, dir := cqld(t)
	dir = filepath.Join(dir, t.Name())
	password := filepath.Join(dir, "password")
	ring, err := process.NewRing(binary, dir, process.Options{Nodes: 1,
		Flags: []string{"--superuser", superuser, "--superuser-password-file", password},
		YAML:  []string{"authenticator: PasswordAuthenticator", "authorizer: CassandraAuthorizer"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(password, []byte(superuserPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := ring.Servers[0]
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	for end := time.Now().Add(ringStart); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", s.Address)
		if err == nil {
			c.Close()
			return s.Address
		}
		if !s.Running() || time.Now().After(end) {
			t.Fatalf("%v\n%s", err, s.Log())
		}
	}
}

// TestLogin checks with every driver that correct credentials work, and that wrong ones are its authentication error;
// then the same with cqlsh.
func TestLogin(t *testing.T) {
	t.Parallel()
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	address := authenticating(t)
	t.Run("drivers", func(t *testing.T) {
		for _, d := range drivers(root) {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				if err := d.installed(); err != nil {
					missing(t, "the "+d.name+" driver", err.Error())
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cmd := d.command(ctx, root, "login", servers{address, 1, 1})
				cmd.Env = append(cmd.Env, "CQLD_USER="+superuser, "CQLD_PASSWORD="+superuserPassword)
				out, err := cmd.CombinedOutput()
				for _, check := range []string{"correct", "wrong", "unknown"} {
					if !strings.Contains("\n"+string(out), "\nok "+check) {
						t.Errorf("%s: %v\n%s", check, err, out)
					}
				}
			})
		}
	})
	t.Run("cqlsh", func(t *testing.T) { cqlshLogins(t, root, address) })
}

// cqlshLogins plays testdata/login.txt with cqlsh. The arguments are those of cqlsh; -rewrite records the answers of
// Cassandra.
func cqlshLogins(t *testing.T, root, address string) {
	cqlsh := filepath.Join(root, ".tools/python/bin/cqlsh")
	if !exists(cqlsh) {
		missing(t, "cqlsh", fmt.Sprintf(installHint, "python"))
	}
	if rewriting() && os.Getenv("CQLD_ORACLE_AUTH") == "" {
		t.Fatal("answers are recorded from Cassandra only: set CQLD_ORACLE_AUTH to its address")
	}
	host, port, _ := strings.Cut(address, ":")
	datadriven.RunTest(t, "testdata/login.txt", func(t *testing.T, d *datadriven.TestData) string {
		args := []string{host, port, "--no-color", "-e", d.Input}
		for _, a := range d.CmdArgs {
			args = append(args, "-"+a.Key, strings.Join(a.Vals, ""))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, cqlsh, args...).CombinedOutput()
		text := plainCqlsh(string(out), host, port)
		if exit := (&exec.ExitError{}); errors.As(err, &exit) {
			text += fmt.Sprintf("exit code %d\n", exit.ExitCode())
		} else if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return text
	})
}

// cqlshWarning matches what cqlsh writes about its version and about passwords in arguments.
var cqlshWarning = regexp.MustCompile("^(WARNING: cqlsh was built against|Warning: Using a password|Recommendation: " +
	"use the credentials)")

// plainCqlsh removes what depends on the address and the version of the server, and warnings of cqlsh about itself.
func plainCqlsh(out, host, port string) string {
	out = strings.ReplaceAll(strings.ReplaceAll(out, host+":"+port, "HOST:PORT"), host, "HOST")
	var lines []string
	for line := range strings.Lines(out) {
		if line = strings.TrimRight(line, " \n"); line != "" && !cqlshWarning.MatchString(line) {
			lines = append(lines, strings.TrimPrefix(line, "<stdin>:1:")+"\n")
		}
	}
	return strings.Join(lines, "")
}
