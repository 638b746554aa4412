package node

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/integration/cqlclient"
	"cqld/node/config"
	"cqld/node/control"
	"cqld/node/snapshot"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/export"
)

// snapshots returns the snapshots of node 0.
func (r *inProcess) snapshots() []control.Snapshot {
	r.t.Helper()
	all, err := r.nodes[0].commands.Snapshots.List(r.t.Context(), control.None{}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return all.Snapshots
}

// automatic waits for the only snapshot of node 0, checks its description of a table with data, and removes it.
func (r *inProcess) automatic(reason snapshot.Reason, keyspace, table string) {
	r.t.Helper()
	r.eventually("a snapshot", func() bool { return len(r.snapshots()) > 0 })
	all := r.snapshots()
	if len(all) != 1 {
		r.t.Fatalf("%d snapshots: %+v", len(all), all)
	}
	s := all[0]
	if !regexp.MustCompile("^"+string(reason)+`-\d{13}-`+table+"$").MatchString(s.Tag) ||
		s.Problem != "" || s.Reason != string(reason) || s.Expires == nil ||
		s.Expires.Sub(s.Created) != 24*time.Hour {
		r.t.Errorf("%+v", s)
	}
	commands, disk := r.nodes[0].commands.Snapshots, r.nodes[0].opts.FS
	v, err := commands.Verify(r.t.Context(), control.VerifyArgs{Tag: s.Tag}, nil)
	if err != nil || v.Files == 0 || v.Unchecked != v.Files || v.Problems != nil {
		r.t.Errorf("%+v, %v", v, err)
	}
	m, err := snapshot.Read(disk, s.Directory)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(m.Tables) != 1 || m.Table(keyspace, table) == nil || m.Complete ||
		!strings.HasPrefix(m.Tables[0].Create, "CREATE TABLE "+keyspace+"."+table) ||
		len(m.Keyspaces) != 1 || len(m.Keyspaces[0].Statements) == 0 {
		r.t.Fatalf("manifest %+v", m)
	}
	c, err := export.Open(disk, filepath.Join(s.Directory, snapshot.DataDir), slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	rows, _, err := c.Append(nil, &export.Query{Table: m.Tables[0].StorageID, Tokens: ring.FullRange(), BytesMax: 100})
	if err != nil || len(rows) == 0 {
		r.t.Errorf("the snapshot has no rows: %v", err)
	}
	if err := c.Close(); err != nil {
		r.t.Error(err)
	}
	if _, err := commands.Clear(r.t.Context(), control.ClearArgs{Tag: s.Tag}, nil); err != nil {
		r.t.Fatal(err)
	}
}

// TestRemovalsMakeSnapshots truncates and drops tables. Each removal of data makes a snapshot of the table alone, with
// its definition, its rows and a time at which it expires. Tables without data, and tables with allow_auto_snapshot
// off, get none.
func TestRemovalsMakeSnapshots(t *testing.T) {
	r := openNodes(t, 213, 1, func(o *config.Options) { o.FS = vfs.Default })
	c := r.connect(0)
	for _, k := range []string{"a", "b"} {
		r.query(c, "CREATE KEYSPACE "+k+
			" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
		r.query(c, "CREATE TABLE "+k+".t (k int PRIMARY KEY, v int)")
		r.query(c, "INSERT INTO "+k+".t (k, v) VALUES (1, 1)")
	}
	r.query(c, "CREATE MATERIALIZED VIEW b.u AS SELECT * FROM b.t WHERE v IS NOT NULL AND k IS NOT NULL "+
		"PRIMARY KEY (v, k)")
	r.query(c, "CREATE TABLE a.off (k int PRIMARY KEY) WITH allow_auto_snapshot = false")
	r.query(c, "INSERT INTO a.off (k) VALUES (1)")
	r.query(c, "TRUNCATE a.t")
	r.automatic(snapshot.Truncated, "a", "t")
	for _, text := range []string{"TRUNCATE a.t", "TRUNCATE a.off", "DROP TABLE a.off"} {
		r.query(c, text)
	}
	r.query(c, "INSERT INTO a.t (k, v) VALUES (2, 2)")
	r.query(c, "DROP TABLE a.t")
	r.automatic(snapshot.Dropped, "a", "t")
	r.query(c, "DROP KEYSPACE b")
	r.automatic(snapshot.Dropped, "b", "t")
	// The drops above are reconciled in their order.
	for _, s := range r.snapshots() {
		t.Errorf("a further snapshot %+v", s)
	}
}

// TestSnapshotsOfRemovalsAreOff truncates and drops a table with auto_snapshot: false.
func TestSnapshotsOfRemovalsAreOff(t *testing.T) {
	r := openNodes(t, 214, 1, func(o *config.Options) { o.Snapshots.Auto = false })
	c := r.connect(0)
	r.fill(c, "1", 2)
	id := r.storage("k", "t")
	r.query(c, "TRUNCATE k.t")
	r.query(c, "INSERT INTO k.t (a, v) VALUES (1, 1)")
	r.query(c, "DROP TABLE k.t")
	r.eventually("the data of the table are removed", func() bool { return r.empty(id) })
	if all := r.snapshots(); len(all) > 0 {
		t.Errorf("snapshots %+v", all)
	}
}

// empty reports whether node 0 has no data of a table.
func (r *inProcess) empty(id schema.StorageID) bool {
	r.t.Helper()
	empty, err := r.nodes[0].engine.EmptyRange(id, ring.FullRange())
	if err != nil {
		r.t.Fatal(err)
	}
	return empty
}

// TestRemovalsWaitForSnapshots truncates and drops a table while no snapshot can be made, because a file has the name
// of the directory. TRUNCATE fails with the reason, and no row is removed until a snapshot is made.
func TestRemovalsWaitForSnapshots(t *testing.T) {
	r := openNodes(t, 215, 1, func(o *config.Options) { o.FS = vfs.Default })
	c := r.connect(0)
	r.fill(c, "1", 2)
	id := r.storage("k", "t")
	obstacle := filepath.Join(r.nodes[0].opts.DataDir, "snapshots")
	block := func() {
		if err := os.RemoveAll(obstacle); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(obstacle, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unblock := func() {
		if err := os.Remove(obstacle); err != nil {
			t.Fatal(err)
		}
	}
	block()
	_, err := send(c, "TRUNCATE k.t", cqlclient.Options{})
	var refused *refused
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "auto_snapshot") || r.empty(id) {
		t.Errorf("TRUNCATE ends with %v, and the table is empty: %v", err, r.empty(id))
	}
	unblock()
	r.query(c, "TRUNCATE k.t")
	r.automatic(snapshot.Truncated, "k", "t")
	r.query(c, "INSERT INTO k.t (a, v) VALUES (1, 1)")
	block()
	r.query(c, "DROP TABLE k.t")
	r.eventually("the drop waits", func() bool {
		return strings.Contains(r.log.String(), "the data of a dropped table stays on disk for now")
	})
	if r.empty(id) {
		t.Error("the data of the dropped table are removed without a snapshot")
	}
	unblock()
	r.automatic(snapshot.Dropped, "k", "t")
	r.eventually("the data of the table are removed", func() bool { return r.empty(id) })
}

// filledDisk is an in-memory file system that reports that it is nearly full.
type filledDisk struct {
	vfs.FS
	full atomic.Bool
}

// GetDiskUsage implements vfs.FS.
func (d *filledDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	u := vfs.DiskUsage{AvailBytes: 1 << 39, TotalBytes: 1 << 40}
	if d.full.Load() {
		u.AvailBytes = 1 << 20
	}
	return u, nil
}

// TestFullDiskMakesNoSnapshots truncates a table on a disk that is nearly full: the space is needed.
func TestFullDiskMakesNoSnapshots(t *testing.T) {
	disk := &filledDisk{FS: vfs.NewMem()}
	r := openNodes(t, 216, 1, func(o *config.Options) { o.FS = disk })
	c := r.connect(0)
	r.fill(c, "1", 2)
	id := r.storage("k", "t")
	disk.full.Store(true)
	r.eventually("the disk is full", func() bool { return r.nodes[0].engine.Metrics().DiskFull })
	r.query(c, "TRUNCATE k.t")
	if all := r.snapshots(); len(all) > 0 || !r.empty(id) {
		t.Errorf("snapshots %+v, the table is empty: %v", all, r.empty(id))
	}
}
