//go:build integration

package integration

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// drillRows is the number of rows of TestDrill, unless CQLD_BACKUP_ROWS sets it.
const drillRows = 4000

// drillGroup is the number of rows with the same value in an indexed column, and in the view by that column.
const drillGroup = 200

// drill is a run of TestDrill. Its memory is bounded, except for what clients write during the run: rows are computed
// from their keys and compared in pages.
type drill struct {
	rows     int
	location string        // of the backup and the archived logs
	password string        // file with the password of the superuser
	clients  *drillClients // of the first ring
	// The times between which the backup was made.
	began, ended time.Time
	at           time.Time // the moment before the mistakes
}

// TestDrill makes a backup of a ring of four while clients write, read, count and change rows conditionally. Later,
// rows, tables, a view and a role are deleted by mistake, and then all disks. One command brings everything back on
// three nodes as it was in the backup, and on three others as it was just before the mistakes. Each node has every row
// at ONE. "make drill" makes it with 10^6 rows.
func TestDrill(t *testing.T) {
	d := &drill{rows: drillRows, location: "file://" + t.TempDir(), password: filepath.Join(t.TempDir(), "password")}
	if text := os.Getenv("CQLD_BACKUP_ROWS"); text != "" {
		rows, err := strconv.Atoi(text)
		if err != nil || rows < drillGroup || rows%drillGroup != 0 {
			t.Fatalf("CQLD_BACKUP_ROWS is %q, and not a multiple of %d", text, drillGroup)
		}
		d.rows = rows
	} else {
		t.Parallel() // it mostly waits, and its latencies are of a few requests
	}
	if err := os.WriteFile(d.password, []byte(superuserPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !t.Run("lost", d.lose) {
		return
	}
	// A backup contains what was acknowledged before it began, and nothing that was sent after it had ended.
	t.Run("restored", func(t *testing.T) { d.restore(t, span{d.began, d.ended}) })
	moment := d.at.UTC().Format(time.RFC3339Nano)
	t.Run("moment", func(t *testing.T) {
		d.restore(t, span{d.at.Add(-margin), d.at.Add(margin)}, "--at", moment)
	})
}

// start starts a ring with authentication. Restored roles replace no role, so all rings have the same superuser.
// Timeouts are long: on a busy machine, the drill takes longer and does not fail.
func (d *drill) start(t *testing.T, nodes int, yaml ...string) *process.Ring {
	for _, kind := range []string{"read", "range", "write", "counter_write"} {
		yaml = append(yaml, kind+"_request_timeout: 20s")
	}
	return startRing(t, process.Options{Nodes: nodes, Dial: asSuperuser,
		Flags: []string{"--superuser", superuser, "--superuser-password-file", d.password},
		YAML: append(yaml, "cas_contention_timeout: 20s",
			"authenticator: PasswordAuthenticator", "authorizer: CassandraAuthorizer")})
}

// lose fills a ring, makes a backup under load, makes mistakes, and deletes the ring's disks.
func (d *drill) lose(t *testing.T) {
	ring := d.start(t, 4, "backup_log: "+d.location)
	mustExecute(t, ring.Servers[0].Address,
		"CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		"CREATE TYPE shop.place (x int, y int)",
		"CREATE TABLE shop.orders (k int PRIMARY KEY, v int, p frozen<place>, note text)",
		"CREATE INDEX by_v ON shop.orders (v)",
		"CREATE MATERIALIZED VIEW shop.orders_by_v AS SELECT k, v FROM shop.orders WHERE k IS NOT NULL AND "+
			"v IS NOT NULL PRIMARY KEY (v, k)",
		"CREATE TABLE shop.visits (k int PRIMARY KEY, n counter)",
		"CREATE TABLE shop.claims (k int PRIMARY KEY, owner text)",
		"CREATE TABLE shop.live (k int PRIMARY KEY, v text)",
		"CREATE TABLE shop.counted (k int PRIMARY KEY, n counter)",
		"CREATE ROLE reader WITH PASSWORD = 'of a reader' AND LOGIN = true", "GRANT SELECT ON shop.orders TO reader")
	began := time.Now()
	loadDrill(t, ring, d.rows)
	d.phase(t, "loaded", began)
	d.sizes(t, ring)
	d.clients = startDrillClients(t, ring, d.rows)
	quiet := max(3*time.Second, time.Duration(d.rows)*30*time.Microsecond)
	time.Sleep(quiet)
	before := d.clients.latencies()
	d.began = time.Now()
	t.Log(mustRunJob(t, ring.Servers[2], "backup", "create", "--to", d.location, "--name", "base"))
	d.ended = time.Now()
	d.phase(t, "backed up", d.began)
	during := d.clients.latencies()
	t.Logf("clients before:          %v", before)
	t.Logf("clients during a backup: %v", during)
	// Moments after the backup differ from it.
	time.Sleep(quiet)
	t.Logf("clients afterwards:      %v", d.clients.latencies())
	d.mistakes(t, ring)
	d.awaitArchived(t, ring.Servers[0])
	d.clients.stop()
	if d.clients.err != nil {
		t.Fatal(d.clients.err)
	}
	began = time.Now()
	t.Log(mustRunJob(t, ring.Servers[1], "backup", "verify", "--at", d.location, "base"))
	d.phase(t, "verified", began)
	t.Logf("the location has %d MiB", sizeOf(t, strings.TrimPrefix(d.location, "file://"))>>20)
	loseRing(t, ring)
}

// mistakes deletes rows, tables, a view, an index and a role, while clients still write.
func (d *drill) mistakes(t *testing.T, ring *process.Ring) {
	d.at = time.Now()
	time.Sleep(time.Second)
	d.clients.reduce()
	statements := []string{"TRUNCATE shop.visits", "DROP TABLE shop.claims", "DROP TABLE shop.counted",
		"DROP MATERIALIZED VIEW shop.orders_by_v", "DROP INDEX shop.by_v", "DROP ROLE reader",
		"ALTER TABLE shop.orders DROP note"}
	for k := range min(d.rows/10, 200) {
		statements = append(statements, fmt.Sprintf("DELETE FROM shop.orders WHERE k = %d", k),
			// The deletions hide rows by their timestamps, also ones that are inserted later.
			fmt.Sprintf("DELETE FROM shop.live USING TIMESTAMP 8 WHERE k = %d", k))
	}
	mustExecute(t, ring.Servers[0].Address, statements...)
}

// awaitArchived waits until the moment before the mistakes is archived, which must take less than 10 seconds.
func (d *drill) awaitArchived(t *testing.T, s *process.Server) {
	t.Helper()
	end := time.Now().Add(10 * time.Second)
	for ; ; time.Sleep(200 * time.Millisecond) {
		out := mustCtl(t, s, "backup", "show", "--at", d.location, "base")
		_, until, _ := strings.Cut(out, " until ")
		moment, err := time.Parse(time.RFC3339Nano, strings.Fields(until + " -")[0])
		if err == nil && moment.After(d.at) {
			t.Logf("the moment is archived after %.1f s", time.Since(d.at).Seconds())
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v is not archived after %v:\n%s", d.at.UTC(), time.Since(d.at), out)
		}
	}
}

// restore restores the backup, or a moment, to a ring of three, compares it, and deletes the ring.
func (d *drill) restore(t *testing.T, s span, flags ...string) {
	ring := d.start(t, 3)
	command := append([]string{"restore", "--from", d.location}, flags...)
	t.Log(mustCtl(t, ring.Servers[1], append(command, "--dry-run")...))
	began := time.Now()
	t.Log(mustRunJob(t, ring.Servers[1], command...))
	d.phase(t, "restored", began)
	d.sizes(t, ring)
	began = time.Now()
	for _, node := range ring.Servers {
		d.mustHaveRows(t, node.Address)
		d.mustHaveClients(t, node.Address, s)
		mustHaveReader(t, node.Address)
	}
	d.mustHaveIndexes(t, ring.Servers[0].Address)
	d.phase(t, "compared on each node", began)
	loseRing(t, ring)
}

// standstill matches a line of a job that shows no progress for half a minute or longer.
var standstill = regexp.MustCompile(`no progress for ([3-9]\ds|\d+m)`)

// mustRunJob executes a command that shows its progress, and returns the lines after it. A job must not show a
// standstill.
func mustRunJob(t *testing.T, s *process.Server, args ...string) string {
	t.Helper()
	var rest []string
	for line := range strings.Lines(mustCtl(t, s, args...)) {
		if standstill.MatchString(line) {
			t.Errorf("%s", line)
		}
		if !strings.HasPrefix(line, "job ") && !strings.HasPrefix(line, "verifying ") {
			rest = append(rest, line)
		}
	}
	return strings.Join(rest, "")
}

// loseRing stops a ring and deletes its disks.
func loseRing(t *testing.T, ring *process.Ring) {
	t.Helper()
	ring.Stop()
	for _, s := range ring.Servers {
		if err := os.RemoveAll(s.Dir); err != nil {
			t.Fatal(err)
		}
	}
}

// phase logs what has taken how long.
func (d *drill) phase(t *testing.T, what string, began time.Time) {
	t.Helper()
	took := time.Since(began).Seconds()
	t.Logf("%d rows are %s: %.1f s, %.0f rows/s", d.rows, what, took, float64(d.rows)/took)
}

// sizes logs the size of the data directories and the memory of the nodes.
func (d *drill) sizes(t *testing.T, ring *process.Ring) {
	t.Helper()
	var text strings.Builder
	for _, s := range ring.Servers {
		fmt.Fprintf(&text, " %d", sizeOf(t, s.Dir)>>20)
		if u, err := s.Usage(); err == nil {
			fmt.Fprintf(&text, " (RSS %d)", u.RSS>>20)
		}
	}
	t.Logf("MiB of the nodes:%s", text.String())
}

// sizeOf returns the size of the files below a directory, in bytes. Files may disappear meanwhile.
func sizeOf(t *testing.T, dir string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if i, err := e.Info(); err == nil {
			size += i.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// mustExecute executes statements as the superuser.
func mustExecute(t *testing.T, address string, statements ...string) {
	t.Helper()
	c := mustDial(t, address)
	for _, s := range statements {
		if err := perform(c, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// asReader connects as the role of the backup.
func asReader(address string) (*cqlclient.Conn, error) {
	return cqlclient.DialAs(address, 4, "reader", "of a reader")
}
