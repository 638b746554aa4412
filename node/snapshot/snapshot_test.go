package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/schema"
)

// write writes a synced file, as the storage engine does.
func write(t *testing.T, disk vfs.FS, path, content string) {
	t.Helper()
	if err := writeFile(disk, path, []byte(content)); err != nil {
		t.Fatal(err)
	}
}

// sealed makes a snapshot of two files in snap.
func sealed(t *testing.T, disk vfs.FS, checksums bool) *Manifest {
	t.Helper()
	if err := disk.MkdirAll("snap/data", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, disk, "snap/data/000001.sst", "rows")
	write(t, disk, "snap/data/MANIFEST-000001", "versions")
	m := example()
	if err := Seal(t.Context(), disk, "snap", m, checksums); err != nil {
		t.Fatal(err)
	}
	return m
}

// example returns a manifest without files.
func example() *Manifest {
	expires := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	return &Manifest{Name: "before", Reason: Manual, Created: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC),
		HybridTime: 1763892000000000, Expires: &expires, Build: "0.1.0", StorageFormat: 4,
		Cluster: Cluster{"Test", "00ff"}, Epoch: 7,
		Node:     Node{ID: "host", Address: "127.0.0.1:7000", Tokens: []string{"-1", "5"}},
		Complete: true, Keyspaces: []Keyspace{{"k", []string{"CREATE KEYSPACE k …"}}},
		Tables: []Table{{Keyspace: "k", Name: "t", ID: "id", StorageID: 1024, Create: "CREATE TABLE k.t <…> & more",
			Columns: []Column{{Name: "k", ID: 1, Kind: "partition_key", Type: "int"},
				{Name: "v", ID: 4, Kind: "regular", Position: -1, Type: "set<int>", MultiCell: true, Dropped: 7}},
			Indexes: []Element{{"i", "CREATE INDEX i …"}}, Views: []Element{{"v", "CREATE MATERIALIZED VIEW v …"}}}}}
}

// TestManifestIsRead reads a written manifest, and refuses every changed byte of it that is not white space.
func TestManifestIsRead(t *testing.T) {
	m := example()
	m.Files = []File{{Name: "000001.sst", Size: 4}}
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(b)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, m)
	}
	for i := range b {
		changed := bytes.Clone(b)
		if changed[i] ^= 1; bytes.ContainsAny([]byte{b[i], changed[i]}, " \n\r\t") {
			continue
		}
		if got, err := Decode(changed); err == nil && !reflect.DeepEqual(got, m) {
			t.Fatalf("byte %d changed to %q is not noticed", i, changed[i])
		}
	}
}

// TestManifestIsRefused decodes manifests of other versions, and with names that lead out of the directory.
func TestManifestIsRefused(t *testing.T) {
	b, err := example().Encode()
	if err != nil {
		t.Fatal(err)
	}
	var unknown *UnknownFormat
	_, err = Decode(bytes.Replace(b, []byte(`"format": 1`), []byte(`"format": 2`), 1))
	if !errors.As(err, &unknown) || unknown.Format != 2 {
		t.Errorf("another version: %v", err)
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, "a\x00"} {
		m := example()
		m.Files = []File{{Name: name}}
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(b); err == nil {
			t.Errorf("the file name %q is accepted", name)
		}
	}
}

// FuzzDecode decodes arbitrary bytes. An accepted manifest is encoded and decoded to an equal one.
func FuzzDecode(f *testing.F) {
	b, err := example().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"format": 1, "crc32c": 2745614147, "snapshot": {}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Skip(err) // a time outside of what JSON can express
		}
		if got, err := Decode(again); err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, m)
		}
	})
}

// TestSealIsDurable cuts the power after Seal: the snapshot is complete, as nothing of it was only in memory.
func TestSealIsDurable(t *testing.T) {
	disk := vfs.NewCrashableMem()
	m := sealed(t, disk, true)
	for _, parent := range []string{"", "snap"} {
		if err := SyncDir(disk, parent); err != nil {
			t.Fatal(err)
		}
	}
	after := disk.CrashClone(vfs.CrashCloneCfg{})
	got, err := Read(after, "snap")
	if err != nil {
		t.Fatal(err)
	}
	if problems, _, err := Verify(t.Context(), after, "snap", got); err != nil || problems != nil {
		t.Errorf("%q, %v", problems, err)
	}
	if _, err := Read(after, "snap/data"); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, m)
	}
}

// TestVerify finds a changed byte, a file that is too short, a missing one, and one that the snapshot did not have.
func TestVerify(t *testing.T) {
	const file = "snap/data/000001.sst"
	for name, test := range map[string]struct {
		change func(disk vfs.FS)
		want   string // of the problem; empty means none
		sizes  bool   // it is found without checksums, too
	}{
		"nothing":        {func(vfs.FS) {}, "", false},
		"a byte":         {func(d vfs.FS) { write(t, d, file, "rowt") }, "000001.sst: its checksum", false},
		"a size":         {func(d vfs.FS) { write(t, d, file, "row") }, "000001.sst: it has 3 bytes", true},
		"a missing file": {func(d vfs.FS) { _ = d.Remove(file) }, "000001.sst: the file is missing", true},
		"another file":   {func(d vfs.FS) { write(t, d, "snap/data/x", "") }, "x: the manifest does not list", true},
	} {
		for _, checksums := range []bool{true, false} {
			disk := vfs.NewMem()
			m := sealed(t, disk, checksums)
			test.change(disk)
			problems, unchecked, err := Verify(t.Context(), disk, "snap", m)
			if err != nil || (unchecked == 0) != checksums {
				t.Errorf("%s: %d files without checksums, %v", name, unchecked, err)
			}
			if found := len(problems) > 0; found != (test.want != "" && (checksums || test.sizes)) ||
				found && !strings.HasPrefix(problems[0], test.want) {
				t.Errorf("%s: problems %q", name, problems)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	disk := vfs.NewMem()
	if _, _, err := Verify(ctx, disk, "snap", sealed(t, disk, true)); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled verification ends with %v", err)
	}
}

// TestRestoredDataIsRecognized follows data that was copied from a snapshot until the node has accepted it.
func TestRestoredDataIsRecognized(t *testing.T) {
	disk := vfs.NewMem()
	want := sealed(t, disk, false)
	const data = "snap/data" // a copy would have the same content
	if m, err := Restored(disk, data); m != nil || err != nil {
		t.Fatal(m, err)
	}
	if err := CheckFiles(disk, data); err != nil {
		t.Fatal(err)
	}
	write(t, disk, "snap/data/000002.sst", "of the engine") // from here on, the engine changes files
	for range 2 {                                           // the node may be refused, and start again
		if err := CheckFiles(disk, data); err != nil {
			t.Fatal(err)
		}
		if m, err := Restored(disk, data); err != nil || !reflect.DeepEqual(m, want) {
			t.Fatal(m, err)
		}
	}
	if err := Accept(disk, data); err != nil {
		t.Fatal(err)
	}
	if m, err := Restored(disk, data); m != nil || err != nil {
		t.Fatal(m, err)
	}
	names, err := disk.List(data)
	slices.Sort(names)
	if err != nil || !slices.Equal(names, []string{"000001.sst", "000002.sst", "MANIFEST-000001"}) {
		t.Error(names, err)
	}
}

// TestIncompleteCopyIsRefused checks the files of a copy that was interrupted.
func TestIncompleteCopyIsRefused(t *testing.T) {
	disk := vfs.NewMem()
	sealed(t, disk, false)
	if err := disk.Remove("snap/data/000001.sst"); err != nil {
		t.Fatal(err)
	}
	err := CheckFiles(disk, "snap/data")
	if err == nil || !strings.Contains(err.Error(), "000001.sst: the file is missing") ||
		!strings.Contains(err.Error(), "snapshot before") {
		t.Error(err)
	}
	if _, err := disk.Stat("snap/data/" + FileName); errors.Is(err, fs.ErrNotExist) {
		t.Error("the next start would accept the copy")
	}
}

// TestOlderSnapshotLacksSystemTables restores a complete snapshot of a version that had fewer system tables, and one of
// some keyspaces, which lacks them all.
func TestOlderSnapshotLacksSystemTables(t *testing.T) {
	catalog := schema.Initial()
	older := &Manifest{Name: "older", Complete: true, Cluster: Cluster{ID: "c"}}
	left := false
	for _, id := range catalog.StorageIDs() {
		stored := catalog.TableByStorage(id)
		if !left && !stored.Virtual {
			left = true
			continue
		}
		older.Tables = append(older.Tables, Table{Keyspace: stored.Keyspace, Name: stored.Name, ID: stored.ID.String(),
			StorageID: id})
	}
	if err := older.Fits("data", "c", catalog); err != nil {
		t.Error(err)
	}
	older.Complete = false
	if err := older.Fits("data", "c", catalog); err == nil || !strings.Contains(err.Error(), "does not contain table") {
		t.Errorf("a snapshot of some keyspaces: %v", err)
	}
	older.Complete = true
	if err := older.Fits("data", "d", catalog); err == nil || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("a snapshot of another cluster: %v", err)
	}
	// A table whose number belongs to another identity.
	older.Tables[0].ID = "other"
	if err := older.Fits("data", "c", catalog); err == nil || !strings.Contains(err.Error(), "created again") {
		t.Errorf("a table with another identity: %v", err)
	}
}
