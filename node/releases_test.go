package node

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/clusterversion"
	"cqld/integration/cqlclient"
	"cqld/internal/release"
	"cqld/node/config"
	"cqld/node/control"
)

var recordRelease = flag.String("record-release", "",
	"write testdata/releases/VERSION with what this build stores: only in the commit of a release (CONTRIBUTING.md)")

// releasesDir has a directory for each release, with what nodes of that release have written:
//
//	disks.tar.gz  the disks of two nodes, as DIR/path: rows, indexes, views, Paxos state, hints, the metadata log
//	checks.json   statements, and what they returned
const releasesDir = "../testdata/releases"

const (
	disksFile  = "disks.tar.gz"
	checksFile = "checks.json"
	// recordingMax bounds a recording, because recordings stay in the repository permanently.
	recordingMax = 300 << 10
	// releaseSubnet is part of the recorded addresses.
	releaseSubnet = 113
)

// releaseCheck is a statement and its recorded result.
type releaseCheck struct {
	Statement string
	State     string `json:",omitempty"` // of paging, base64
	Rows      []string
}

// TestReleasesAreRead starts nodes of this build with the disks that each release has written: they read everything,
// continue its paging states, and deliver its hints. Before the first release, it does so with what this build writes.
func TestReleasesAreRead(t *testing.T) {
	if *recordRelease != "" {
		recordInto(t, filepath.Join(releasesDir, *recordRelease))
	}
	entries, err := os.ReadDir(releasesDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) { readRelease(t, filepath.Join(releasesDir, e.Name())) })
	}
	t.Run("this build", func(t *testing.T) {
		dir := t.TempDir()
		recordInto(t, dir)
		readRelease(t, dir)
	})
}

// releaseSchema and releaseRows write every kind of data. The second node is down for the statements after them, so
// that the first one keeps hints.
func releaseSchema() []string {
	return []string{
		"CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
		"CREATE TYPE k.place (street text, number int)",
		"CREATE TABLE k.all_kinds (p text, c int, s text static, v text, l list<int>, m map<text, int>, " +
			"u frozen<place>, w place, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)",
		"CREATE TABLE k.counts (p text PRIMARY KEY, n counter)",
		"CREATE INDEX by_v ON k.all_kinds (v)",
		"CREATE TABLE k.users (id int PRIMARY KEY, name text)",
		"CREATE MATERIALIZED VIEW k.by_name AS SELECT * FROM k.users WHERE name IS NOT NULL AND id IS NOT NULL " +
			"PRIMARY KEY (name, id)",
		"CREATE TABLE k.dropped (p int PRIMARY KEY)",
		"DROP TABLE k.dropped",
		"ALTER TABLE k.users ADD mail text",
	}
}

func releaseRows() (out []string) {
	for i := range 12 {
		out = append(out, fmt.Sprintf("INSERT INTO k.all_kinds (p, c, s, v, l, m, u, w) VALUES ('p%d', %d, 's', "+
			"'v%d', [1, %d], {'a': %d}, {street: 'x', number: %d}, {street: 'y', number: %d})", i%3, i, i%4, i, i,
			i, i))
	}
	return append(out,
		"DELETE FROM k.all_kinds WHERE p = 'p0' AND c = 3",
		"DELETE FROM k.all_kinds WHERE p = 'p1' AND c > 4 AND c < 8",
		"UPDATE k.all_kinds USING TTL 630000000 SET v = 'kept' WHERE p = 'p2' AND c = 2",
		"UPDATE k.all_kinds SET l = l + [7], m['b'] = 5, w.number = 9 WHERE p = 'p2' AND c = 5",
		"UPDATE k.counts SET n = n + 5 WHERE p = 'a'",
		"UPDATE k.counts SET n = n - 2 WHERE p = 'a'",
		"INSERT INTO k.users (id, name) VALUES (1, 'ada') IF NOT EXISTS",
		"UPDATE k.users SET mail = 'a@b' WHERE id = 1 IF name = 'ada'",
		"BEGIN BATCH INSERT INTO k.users (id, name) VALUES (2, 'bob'); "+
			"INSERT INTO k.users (id, name) VALUES (3, 'eve'); APPLY BATCH")
}

// releaseReads are the statements whose results are recorded.
func releaseReads() []string {
	return []string{
		"SELECT * FROM k.all_kinds WHERE p IN ('p0', 'p1', 'p2')",
		"SELECT p, c FROM k.all_kinds WHERE v = 'v1'",
		"SELECT * FROM k.counts",
		"SELECT * FROM k.users WHERE id IN (1, 2, 3, 4)",
		"SELECT * FROM k.by_name WHERE name = 'eve'",
		"SELECT table_name, id FROM system_schema.tables WHERE keyspace_name = 'k'",
	}
}

// recordInto writes a recording of this build into a directory.
func recordInto(t *testing.T, dir string) {
	t.Helper()
	disks := []*vfs.MemFS{vfs.NewMem(), vfs.NewMem()}
	r := openReleaseNodes(t, disks)
	c := r.connect(0)
	for _, s := range slices.Concat(releaseSchema(), releaseRows()) {
		r.queryAll(c, s)
	}
	for _, n := range r.nodes {
		if err := n.engine.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	r.stop(1)
	// A hint for the node that is down. These rows stay in the log of the storage engine.
	r.query(c, "INSERT INTO k.users (id, name) VALUES (4, 'hinted')")
	var checks []releaseCheck
	for _, s := range releaseReads() {
		checks = append(checks, releaseCheck{Statement: s, Rows: rowsOf(r.query(c, s))})
	}
	checks = append(checks, pagedChecks(t, c)...)
	r.stop(0)
	writeRecording(t, dir, r, disks, checks)
}

// pagedChecks reads the second of two pages, and returns it with the state of the first.
func pagedChecks(t *testing.T, c *cqlclient.Conn) (out []releaseCheck) {
	for _, s := range []string{"SELECT * FROM k.all_kinds WHERE p = 'p2'", "SELECT id FROM k.users"} {
		first, err := send(c, s, cqlclient.Options{PageSize: 2})
		if err != nil {
			t.Fatal(err)
		}
		second, err := send(c, s, cqlclient.Options{PageSize: 100, PagingState: first.PagingState})
		if err != nil || len(first.PagingState) == 0 || len(second.Rows) == 0 {
			t.Fatalf("%s has no second page: %v", s, err)
		}
		out = append(out, releaseCheck{s, base64.StdEncoding.EncodeToString(first.PagingState), rowsOf(second)})
	}
	return out
}

// readRelease starts nodes with the recorded disks, and compares what they return.
func readRelease(t *testing.T, dir string) {
	b, err := os.ReadFile(filepath.Join(dir, checksFile))
	if err != nil {
		t.Fatal(err)
	}
	var checks []releaseCheck
	if err := json.Unmarshal(b, &checks); err != nil {
		t.Fatal(err)
	}
	r := openReleaseNodes(t, readRecording(t, dir))
	c := r.connect(0)
	for _, check := range checks {
		state, err := base64.StdEncoding.DecodeString(check.State)
		if err != nil {
			t.Fatal(err)
		}
		o := cqlclient.Options{}
		if check.State != "" {
			o.PagingState, o.PageSize = state, 100
		}
		a, err := send(c, check.Statement, o)
		if err != nil {
			t.Errorf("%s: %v", check.Statement, err)
			continue
		}
		if got := rowsOf(a); !slices.Equal(got, check.Rows) {
			t.Errorf("%s:\n%s\nrecorded:\n%s", check.Statement, strings.Join(got, "\n"), strings.Join(check.Rows, "\n"))
		}
	}
	other := r.connect(1)
	r.eventually("the hint on the other node", func() bool {
		return len(r.query(other, "SELECT name FROM k.users WHERE id = 4").Rows) == 1 &&
			r.nodes[0].parts.Hints.Pending(r.nodes[1].cluster.Self()) == 0
	})
	// Both nodes write to the rows that the release wrote, also conditionally.
	a := r.query(other, "UPDATE k.users SET name = 'new' WHERE id = 1 IF mail = 'a@b'")
	if len(a.Rows) != 1 || !bytes.Equal(a.Rows[0][0], []byte{1}) {
		t.Errorf("a condition on recorded data: %q", a.Rows)
	}
	r.queryAll(other, "UPDATE k.counts SET n = n + 1 WHERE p = 'a'")
	r.query(other, "CREATE TABLE k.later (p int PRIMARY KEY)")
	// Later releases finalize an upgrade here, and this one has nothing to finalize.
	r.eventually("the newest cluster version", func() bool {
		u, err := r.nodes[1].commands.Upgrade.Finalize(t.Context(), control.None{}, silent)
		return err == nil && u.ClusterVersion == int(clusterversion.Supported().Max) && len(u.Nodes) == 2 &&
			u.Nodes[0].Waits == "" && u.Nodes[1].Build == release.Build()
	})
}

// openReleaseNodes opens two nodes with these disks.
func openReleaseNodes(t *testing.T, disks []*vfs.MemFS) *inProcess {
	t.Helper()
	next := 0
	return openNodes(t, releaseSubnet, len(disks), func(o *config.Options) {
		for _, path := range filesOf(t, disks[next], "/disk") {
			copyOn(t, disks[next], path, filepath.Join(o.DataDir, strings.TrimPrefix(path, "/disk")))
		}
		o.FS = disks[next]
		next++
	})
}

// stop ends a node in order.
func (r *inProcess) stop(i int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if r.killed == nil {
		r.killed = map[*Node]bool{}
	}
	r.killed[r.nodes[i]] = true
	if err := r.nodes[i].Close(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// rowsOf returns the rows of an answer as text, one a line.
func rowsOf(a *cqlclient.Answer) (out []string) {
	for _, row := range a.Rows {
		var cells []string
		for _, cell := range row {
			if cell == nil {
				cells = append(cells, "null")
			} else {
				cells = append(cells, fmt.Sprintf("%x", cell))
			}
		}
		out = append(out, strings.Join(cells, " "))
	}
	return out
}

// filesOf returns the paths of all files below a directory.
func filesOf(t *testing.T, disk vfs.FS, dir string) (out []string) {
	t.Helper()
	names, err := disk.List(dir)
	if err != nil {
		return nil // a new disk has no recording
	}
	slices.Sort(names)
	for _, name := range names {
		path := disk.PathJoin(dir, name)
		info, err := disk.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			out = append(out, filesOf(t, disk, path)...)
		} else {
			out = append(out, path)
		}
	}
	return out
}

// copyOn copies a file of a disk to another path on it.
func copyOn(t *testing.T, disk vfs.FS, from, to string) {
	t.Helper()
	if err := disk.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := vfs.Copy(disk, from, to); err != nil {
		t.Fatal(err)
	}
}

// writeRecording writes the files of a recording.
func writeRecording(t *testing.T, dir string, r *inProcess, disks []*vfs.MemFS, checks []releaseCheck) {
	t.Helper()
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(zip)
	for i, disk := range disks {
		root := r.nodes[i].opts.DataDir
		for _, path := range filesOf(t, disk, root) {
			f, err := disk.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(f)
			name := fmt.Sprintf("%d%s", i, strings.TrimPrefix(path, root))
			err = errors.Join(err, f.Close(), w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(b))}))
			if _, e := w.Write(b); e != nil || err != nil {
				t.Fatal(e, err)
			}
		}
	}
	text, err := json.MarshalIndent(checks, "", "  ")
	if err := errors.Join(err, w.Close(), zip.Close(), os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, disksFile), packed.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, checksFile), append(text, '\n'), 0o644)); err != nil {
		t.Fatal(err)
	}
	n := packed.Len() + len(text)
	t.Logf("the recording has %d bytes", n)
	if n > recordingMax {
		t.Errorf("the recording has %d bytes, more than %d", n, recordingMax)
	}
}

// readRecording returns the disks of a recording, with their files below /disk.
func readRecording(t *testing.T, dir string) (disks []*vfs.MemFS) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, disksFile))
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if err == io.EOF {
			return disks
		}
		if err != nil {
			t.Fatal(err)
		}
		number, path, _ := strings.Cut(h.Name, "/")
		// The disks are in order.
		if number == fmt.Sprint(len(disks)) {
			disks = append(disks, vfs.NewMem())
		}
		disk, path := disks[len(disks)-1], "/disk/"+path
		if err := disk.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(f, r)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
