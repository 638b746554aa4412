//go:build integration && upgrade

package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// TestUpgradeBetweenBuilds upgrades a ring of four from the build of another commit, which CQLD_UPGRADE_FROM names, to
// this one, a node at a time, and back. Two drivers, conditional changes and changes of the schema are executed
// meanwhile; a fifth node joins the mixed ring with the former build, and leaves it again on the way back. No request
// of a driver may fail, and no acknowledged change may be lost.
func TestUpgradeBetweenBuilds(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	binary, dir := cqld(t)
	former := buildFormer(t, root, filepath.Join(dir, t.Name(), "former"))
	ring := startRingOf(t, former, process.Options{Nodes: 4, Spare: 1})
	alter(t, ring.Servers[0], "CREATE KEYSPACE upgraded WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': 3}", "CREATE TABLE upgraded.claims (k int PRIMARY KEY, owner text)")
	loads, end := startPrograms(root, "failover", servers{ring.Addresses(), 4, 3}, "go-gocql", "python")
	claims := startClaims(t, strings.Split(ring.Addresses(), ","))
	u := &upgrading{t: t, ring: ring, old: slices.Clone(ring.Servers)}
	for i, s := range u.old {
		u.restart(s, binary, "this build")
		if i == 1 {
			u.join(ring.Spare[0])
		}
	}
	for i, s := range u.old {
		u.restart(s, former, "the former build")
		if i == 1 {
			u.leave()
		}
	}
	end()
	claims.stop()
	for _, s := range u.old {
		claims.mustBeThere(t, s.Address)
	}
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) { l.judgeUpgrade(t) })
	}
	t.Logf("%d conditional changes were acknowledged, %d of them repeated", claims.acked, claims.repeated)
}

// buildFormer builds the commit of CQLD_UPGRADE_FROM in a directory, without a change of the repository.
func buildFormer(t *testing.T, root, dir string) (binary string) {
	t.Helper()
	commit := os.Getenv("CQLD_UPGRADE_FROM")
	if commit == "" {
		t.Fatal("CQLD_UPGRADE_FROM must name a commit or a tag: make upgrade-test FROM=v0.1.0")
	}
	source := filepath.Join(dir, "source")
	if err := os.MkdirAll(source, 0o755); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "source.tar")
	binary = filepath.Join(dir, "cqld")
	for _, step := range []struct {
		dir  string
		argv []string
	}{
		{root, []string{"git", "archive", "--output", archive, commit}},
		{source, []string{"tar", "-xf", archive}},
		{source, []string{"go", "build", "-o", binary, "./cmd/cqld"}},
		{source, []string{binary, "--version"}},
	} {
		cmd := exec.CommandContext(t.Context(), step.argv[0], step.argv[1:]...)
		cmd.Dir, cmd.Env = step.dir, append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(step.argv, " "), err, out)
		}
		t.Logf("%s: %s", step.argv[0], out)
	}
	return binary
}

// upgrading is a ring whose nodes change their build.
type upgrading struct {
	t       *testing.T
	ring    *process.Ring
	old     []*process.Server // without the node that joins
	changes int               // of the schema
}

// restart restarts a node with a build, and changes the schema through it and another node.
func (u *upgrading) restart(s *process.Server, binary, what string) {
	u.t.Helper()
	began := time.Now()
	s.Stop()
	s.UseBinary(binary)
	if err := s.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.agree()
	u.t.Logf("%s runs %s after %v", s.Address, what, time.Since(began))
	u.changes++
	table := fmt.Sprintf("upgraded.t%d", u.changes)
	alter(u.t, s, "CREATE TABLE "+table+" (k int PRIMARY KEY, v text)")
	other := u.old[(slices.Index(u.old, s)+1)%len(u.old)]
	alter(u.t, other, "ALTER TABLE "+table+" ADD w text", "INSERT INTO "+table+" (k, w) VALUES (1, 'x')")
	if u.changes%2 == 0 {
		alter(u.t, other, "DROP TABLE "+table)
	}
	time.Sleep(rollingBetween)
}

// agree waits until all nodes agree.
func (u *upgrading) agree() {
	u.t.Helper()
	if err := u.ring.WaitAgreed(2 * ringStart); err != nil {
		u.t.Fatal(err)
	}
}

// join starts another node, with the former build.
func (u *upgrading) join(s *process.Server) {
	u.t.Helper()
	if err := s.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.ring.Servers, u.ring.Spare = append(u.ring.Servers, s), nil
	u.agree()
	u.t.Logf("a node joined the ring of two builds")
}

// leave decommissions the node that has joined, which runs the former build.
func (u *upgrading) leave() {
	u.t.Helper()
	last := u.ring.Servers[len(u.old)]
	mustCtl(u.t, last, "decommission")
	last.Stop()
	u.ring.Servers = slices.Clone(u.old)
	u.agree()
	u.t.Logf("it left the ring of two builds")
}

// judgeUpgrade fails the test for each request that failed, and for each acknowledged row that is missing.
func (l *load) judgeUpgrade(t *testing.T) {
	if l.installed != nil {
		missing(t, "the "+l.name+" driver", l.installed.Error())
	}
	counts := map[string]int{}
	for _, e := range l.events {
		counts[e.kind]++
		if e.kind == "missing" || e.kind == "error" {
			t.Errorf("%s at %s: %s", e.kind, e.at.Format("15:04:05.000"), e.text)
		}
	}
	if l.err != nil || counts["done"] != 1 || counts["acked"] < 1000 {
		t.Errorf("the program failed after %d writes: %v", counts["acked"], l.err)
	}
	t.Logf("%d writes were acknowledged, and are there", counts["acked"])
}

// claims inserts rows on condition that they do not exist, with the repetitions that a driver makes: through another
// node after an error. Its fields are complete after stop.
type claims struct {
	acked, repeated int
	failed          error
	stop            func()
}

// claimTries is how often a change is tried before it has failed.
const claimTries = 8

// startClaims starts the changes.
func startClaims(t *testing.T, addresses []string) *claims {
	c := &claims{}
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		var at connectedNode
		defer at.close()
		for ctx.Err() == nil && c.failed == nil {
			for try := 0; ; try++ {
				err := at.claim(addresses, c.acked)
				if err == nil {
					c.acked++
					break
				}
				if c.repeated++; try == claimTries {
					c.failed = fmt.Errorf("change %d failed %d times: %w", c.acked, try, err)
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	c.stop = sync.OnceFunc(func() {
		cancel()
		working.Wait()
	})
	t.Cleanup(c.stop)
	return c
}

// connectedNode is a connection to one of the nodes; c is nil without one.
type connectedNode struct {
	next int
	c    *cqlclient.Conn
}

func (n *connectedNode) close() {
	if n.c != nil {
		_ = n.c.Close()
	}
	n.c = nil
}

// claim inserts row k. After an error, the next call uses the next node. A row that an earlier try has inserted counts.
func (n *connectedNode) claim(addresses []string, k int) (err error) {
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if n.c == nil {
		n.next++
		if n.c, err = cqlclient.Dial(addresses[n.next%len(addresses)], 4); err != nil {
			n.c = nil
			return err
		}
	}
	a, err := n.c.Query(fmt.Sprintf("INSERT INTO upgraded.claims (k, owner) VALUES (%d, 'of %d') IF NOT EXISTS", k, k),
		cqlclient.Options{Consistency: quorum})
	switch {
	case err != nil:
		return err
	case a.Err != nil:
		return a.Err
	case len(a.Rows) == 1 && (a.Rows[0][0][0] == 1 || bytes.Equal(a.Rows[0][2], fmt.Appendf(nil, "of %d", k))):
		return nil
	}
	return fmt.Errorf("the condition of row %d saw %x", k, a.Rows)
}

// mustBeThere compares all rows through a node.
func (c *claims) mustBeThere(t *testing.T, address string) {
	t.Helper()
	if c.failed != nil || c.acked < 500 {
		t.Fatalf("%d changes: %v", c.acked, c.failed)
	}
	conn, err := cqlclient.Dial(address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	seen := 0
	mustPage(t, conn, "SELECT k, owner FROM upgraded.claims", quorum, func([][]byte) { seen++ })
	// The last change may have been executed without an answer.
	if seen < c.acked || seen > c.acked+1 {
		t.Errorf("%s: %d of %d conditional changes are there", address, seen, c.acked)
	}
}
