//go:build integration

package integration

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cqld/backup/bucket/s3"
	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// backupRows is the number of rows of the drill.
const backupRows = 2000

// TestLostRingIsRestoredToASmallerOne follows docs/BACKUP.md: a ring of four is backed up while clients write, its
// disks are deleted, and one command brings all of it back on a ring of three, where each node has every row at ONE.
// The nodes encrypt the backups in S3.
func TestLostRingIsRestoredToASmallerOne(t *testing.T) {
	for kind, serve := range map[string]func(*testing.T) string{
		"directory": func(t *testing.T) string { return "file://" + t.TempDir() },
		"s3":        func(t *testing.T) string { return "s3://backups/ring?endpoint=" + serveStores(t) },
		"google":    func(t *testing.T) string { serveGoogle(t); return "gs://backups/ring" },
		"azure": func(t *testing.T) string {
			return "azblob://backups/ring?account=" + azuriteAccount + "&endpoint=" + serveAzure(t)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			location, yaml := serve(t), []string(nil)
			if kind == "s3" {
				yaml = encryptBackups(t)
			}
			if t.Run("lost", func(t *testing.T) { backUpRing(t, location, yaml) }) {
				if kind == "s3" {
					t.Run("sealed", func(t *testing.T) { mustBeSealed(t, location) })
				}
				t.Run("restored", func(t *testing.T) { restoreRing(t, location, yaml) })
				// The other kinds would test nothing else.
				if kind == "directory" {
					t.Run("copied", func(t *testing.T) { copyRing(t, location) })
				}
			}
		})
	}
}

// encryptBackups makes a key, as docs/BACKUP.md says, and returns the configuration of nodes that encrypt backups.
func encryptBackups(t *testing.T) (yaml []string) {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	file := filepath.Join(t.TempDir(), "backup.key")
	if err := os.WriteFile(file, []byte(hex.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"backup_encryption_key_file: " + file}
}

// mustBeSealed reads all objects of a location in S3. Except for the layout, none shows the name of a table or a role.
func mustBeSealed(t *testing.T, location string) {
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s3.Open(s3.Options{Bucket: u.Host, Endpoint: u.Query().Get("endpoint")})
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	var read func(prefix string)
	read = func(prefix string) {
		names, err := b.List(t.Context(), prefix, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			name = prefix + name
			r, _, err := b.Read(t.Context(), name, 0, 0)
			// A part of the names of other objects.
			if errors.Is(err, fs.ErrNotExist) {
				read(name + "/")
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(r)
			if err := errors.Join(err, r.Close()); err != nil {
				t.Fatal(err)
			}
			objects++
			if strings.HasSuffix(name, "/cqld-backups.json") {
				continue
			}
			for _, text := range []string{"orders", "cassandra", "datacenter1", `"format"`} {
				if bytes.Contains(content, []byte(text)) {
					t.Errorf("%s contains %s in clear", name, text)
				}
			}
		}
	}
	read(strings.Trim(u.Path, "/") + "/")
	if objects < 20 {
		t.Errorf("the location has %d objects", objects)
	}
}

// backUpRing makes two backups of a ring, whose nodes have further lines of configuration, and loses it.
func backUpRing(t *testing.T, location string, yaml []string) {
	ring := startRing(t, process.Options{Nodes: 4, YAML: yaml})
	s := ring.Servers[0]
	statements := []string{"CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', " +
		"'replication_factor': 3}", "CREATE TYPE shop.place (x int, y int)",
		"CREATE TABLE shop.orders (k int PRIMARY KEY, v text, p frozen<place>)",
		"CREATE INDEX by_v ON shop.orders (v)",
		"CREATE MATERIALIZED VIEW shop.orders_by_v AS SELECT k, v FROM shop.orders WHERE k IS NOT NULL AND " +
			"v IS NOT NULL PRIMARY KEY (v, k)",
		"CREATE TABLE shop.visits (k int PRIMARY KEY, n counter)"}
	for k := range backupRows {
		statements = append(statements, fmt.Sprintf("INSERT INTO shop.orders (k, v, p) VALUES (%d, 'v%d', {x: %d})", k,
			k%100, k))
	}
	for k := range 100 {
		statements = append(statements, fmt.Sprintf("UPDATE shop.visits SET n = n + %d WHERE k = %d", k, k))
	}
	statements = append(statements, "UPDATE shop.orders SET v = 'changed' WHERE k = 7 IF v = 'v7'")
	if err := process.Ask(s.Address, statements...); err != nil {
		t.Fatal(err)
	}
	mustCtl(t, s, "backup", "create", "--to", location, "--name", "first")
	// Writes continue during the second backup.
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for k := backupRows; err == nil; k++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				err = process.Ask(s.Address, fmt.Sprintf("INSERT INTO shop.orders (k, v) VALUES (%d, 'later')", k))
			}
		}
		stopped <- err
	}()
	mustCtl(t, ring.Servers[2], "backup", "create", "--to", location, "--name", "second")
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	list := mustCtl(t, s, "backup", "list", "--at", location)
	if !strings.Contains(list, "first") || !strings.Contains(list, "second") {
		t.Errorf("the list is\n%s", list)
	}
	mustCtl(t, s, "backup", "verify", "--at", location, "second")
	ring.Stop()
	for _, s := range ring.Servers {
		if err := os.RemoveAll(s.Dir); err != nil {
			t.Fatal(err)
		}
	}
}

// restoreRing restores the second backup, and reads everything at each node.
func restoreRing(t *testing.T, location string, yaml []string) {
	ring := startRing(t, process.Options{Nodes: 3, YAML: yaml})
	s := ring.Servers[1]
	mustCtl(t, s, "backup", "delete", "--at", location, "first", "--grace", "0s")
	if plan := mustCtl(t, s, "restore", "--from", location, "--dry-run"); !strings.Contains(plan, "shop.orders") {
		t.Errorf("the plan is\n%s", plan)
	}
	mustCtl(t, s, "restore", "--from", location)
	for _, s := range ring.Servers {
		c, err := cqlclient.Dial(s.Address, 4)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		one := func(text string) [][][]byte { return mustReadAtOne(t, c, text) }
		seen := map[uint32]bool{}
		for _, row := range one("SELECT k FROM shop.orders") {
			seen[binary.BigEndian.Uint32(row[0])] = true
		}
		for k := range uint32(backupRows) {
			if !seen[k] {
				t.Fatalf("%s: row %d is missing", s.Address, k)
			}
		}
		for k := range 100 {
			row := one(fmt.Sprintf("SELECT n FROM shop.visits WHERE k = %d", k))
			if len(row) != 1 || binary.BigEndian.Uint64(row[0][0]) != uint64(k) {
				t.Errorf("%s: the counter %d is %x", s.Address, k, row)
			}
		}
		if row := one("SELECT v FROM shop.orders WHERE k = 7"); len(row) != 1 || string(row[0][0]) != "changed" {
			t.Errorf("%s: the conditional change is %q", s.Address, row)
		}
	}
	c, err := cqlclient.Dial(s.Address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// Indexes and views are built in the background.
	for _, text := range []string{"SELECT k FROM shop.orders WHERE v = 'v5'",
		"SELECT k FROM shop.orders_by_v WHERE v = 'v5'"} {
		var rows int
		for end := time.Now().Add(time.Minute); rows != backupRows/100 && time.Now().Before(end); {
			if a, err := c.Query(text, cqlclient.Options{PageSize: 5000}); err == nil && a.Err == nil {
				rows = len(a.Rows)
			}
		}
		if rows != backupRows/100 {
			t.Errorf("%s: %d rows", text, rows)
		}
	}
}

// mustReadAtOne returns the rows of a query at ONE, in one page.
func mustReadAtOne(t *testing.T, c *cqlclient.Conn, text string) [][][]byte {
	t.Helper()
	a, err := c.Query(text, cqlclient.Options{Consistency: 1, PageSize: 100000})
	if err != nil || a.Err != nil {
		t.Fatalf("%s: %v, %v", text, err, a)
	}
	return a.Rows
}
