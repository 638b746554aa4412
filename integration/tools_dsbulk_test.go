//go:build integration

package integration

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// bulkRows is the number of rows that dsbulk loads and unloads.
const bulkRows = 20_000

// TestDSBulk loads a table from CSV with dsbulk, unloads it, and compares the files.
func TestDSBulk(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	jars := filepath.Join(root, ".tools/dsbulk/lib")
	if !exists(filepath.Join(root, ".tools/dsbulk.stamp")) {
		missing(t, "dsbulk", fmt.Sprintf(installHint, "dsbulk"))
	}
	address := shellAddress(t)
	c, err := cqlclient.Dial(address, 5)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	keyspace(t, c, "bulk", 1)
	query(t, c, "CREATE TABLE bulk.t (id int PRIMARY KEY, name text, v bigint, at timestamp, tags frozen<set<int>>)",
		cqlclient.Options{})
	lines := []string{}
	for i := range bulkRows {
		lines = append(lines, fmt.Sprintf(`%d,"name, %d über",%d,2024-01-02T03:04:%02dZ,"[%d,%d]"`, i, i,
			int64(i)*int64(i)*1000, i%60, i%3, 5+i%4))
	}
	dir := t.TempDir()
	in := filepath.Join(dir, "in.csv")
	if err := os.WriteFile(in, []byte("id,name,v,at,tags\n"+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	bulk(t, jars, dir, address, "load", in)
	a := query(t, c, "SELECT count(*) FROM bulk.t", cqlclient.Options{Consistency: quorum})
	if n := binary.BigEndian.Uint64(a.Rows[0][0]); n != bulkRows {
		t.Fatalf("%d rows are in the table after loading %d", n, bulkRows)
	}
	bulk(t, jars, dir, address, "unload", filepath.Join(dir, "out"))
	got := unloaded(t, filepath.Join(dir, "out"))
	sort.Strings(lines)
	if len(got) != len(lines) {
		t.Fatalf("%d rows are unloaded of %d", len(got), len(lines))
	}
	for i := range got {
		if got[i] != lines[i] {
			t.Fatalf("dsbulk wrote %q, want %q", got[i], lines[i])
		}
	}
}

// bulk executes one operation of dsbulk on table bulk.t.
func bulk(t *testing.T, jars, dir, address, operation, url string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "java", "-Xmx256m", "-cp", filepath.Join(jars, "*"),
		"com.datastax.oss.dsbulk.runner.DataStaxBulkLoader", operation,
		"-url", url, "-header", "true", "-k", "bulk", "-t", "t", "-h", host, "-port", port, "-dc", "datacenter1",
		"-cl", "LOCAL_QUORUM", "-logDir", filepath.Join(dir, "logs"), "-maxErrors", "0",
		// The driver in dsbulk cannot read definitions of vectors, neither from Cassandra: it sees only this keyspace.
		"--datastax-java-driver.advanced.metadata.schema.refreshed-keyspaces", `["bulk"]`,
		"--schema.mapping", "id,name,v,at,tags")
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		logs, _ := filepath.Glob(filepath.Join(dir, "logs/*/*.log")) // the pattern is correct
		for _, l := range logs {
			b, err := os.ReadFile(l)
			t.Logf("%s: %.2000s %v", filepath.Base(l), b, err)
		}
		t.Fatalf("dsbulk %s: %v\n%s", operation, err, out)
	}
}

// unloaded returns the sorted lines of the files that dsbulk wrote, without their headers.
func unloaded(t *testing.T, dir string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		_, rows, _ := strings.Cut(string(b), "\n")
		if rows = strings.TrimSpace(rows); rows != "" {
			lines = append(lines, strings.Split(rows, "\n")...)
		}
	}
	sort.Strings(lines)
	return lines
}
