package node

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/node/config"
	"cqld/node/control"
)

// The keys of the tests.
const (
	firstKey  = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	secondKey = "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
)

// inClear returns the files of a directory that contain a text, grouped by the first directory of their paths.
func inClear(t *testing.T, dir, text string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(b, []byte(text)) {
			path, err = filepath.Rel(dir, path)
			first, _, _ := strings.Cut(path, string(filepath.Separator))
			found[first] = append(found[first], path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// rotate rewrites the files of a node, and returns how many files have which key afterwards.
func (r *restorer) rotate() map[string]int {
	r.t.Helper()
	out, err := r.nodes[0].commands.Encryption.Rotate(r.t.Context(), control.RotateArgs{}, func(control.Progress) {})
	if err != nil {
		r.t.Fatal(err)
	}
	files := map[string]int{}
	for _, k := range out.Keys {
		files[k.Key] = k.Files
	}
	return files
}

// restart starts the node with other keys; empty means none.
func (r *restorer) restart(keys string) error {
	r.t.Helper()
	r.stop()
	r.nodes[0].opts.AtRest.Keys = keys
	return r.start()
}

// TestStoredDataIsEncrypted follows the data of a node from files in clear through two keys and back. Every byte of the
// data directory is searched for what clients have written: values, keys, and names of the schema, which are in rows,
// logs, the Raft log and snapshots.
func TestStoredDataIsEncrypted(t *testing.T) {
	r := &restorer{inProcess: openNodes(t, 213, 1, func(o *config.Options) { o.FS = vfs.Default })}
	r.c = r.connect(0)
	dir := r.nodes[0].opts.DataDir
	r.query(r.c, "CREATE KEYSPACE xsecret WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	r.query(r.c, "CREATE TABLE xsecret.t (k text PRIMARY KEY, v text)")
	insert := func(key string) {
		t.Helper()
		r.query(r.c, "INSERT INTO xsecret.t (k, v) VALUES ('xsecret "+key+"', 'xsecret value')")
	}
	rows := func(want int) {
		t.Helper()
		found := r.query(r.c, "SELECT k FROM xsecret.t WHERE v = 'xsecret value' ALLOW FILTERING")
		if got := len(found.Rows); got != want {
			t.Errorf("%d rows, want %d", got, want)
		}
	}
	insert("in clear")
	r.snapshot("before")
	found := inClear(t, dir, "xsecret")
	// Commands in the Raft log are compressed; Pebble's files beside them are not.
	for _, f := range [][]string{found["data"], found["snapshots"], inClear(t, dir, "pebble_version")["raft"]} {
		if len(f) == 0 {
			t.Errorf("files are not in clear without encryption: the test finds nothing: %v", found)
		}
	}
	// Encryption is enabled. The files in clear are read, and rewritten by the job.
	if err := r.restart(firstKey); err != nil {
		t.Fatal(err)
	}
	insert("encrypted")
	rows(2)
	files := r.rotate()
	if files["none"] > 0 {
		t.Errorf("after the rotation: %v", files)
	}
	all := r.snapshot("after")
	r.snapshot("some", "xsecret")
	insert("later")
	for _, text := range []string{"xsecret", "pebble_version", "leveldb.BytewiseComparator"} {
		if found := inClear(t, dir, text); len(found) > 0 {
			t.Errorf("%s is in clear: %v", text, found)
		}
	}
	// Without the key, or with another one, the node does not start, and reports the missing key.
	r.refusesKeys("", "no key is configured: set encryption_key_file")
	r.refusesKeys(secondKey, "which is not among the configured keys")
	r.refusesKeys("short", "is not 32 bytes")
	// A new key.
	r.nodes[0].opts.AtRest.Keys = secondKey + "," + firstKey
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	rows(3)
	if files := r.rotate(); len(files) != 2 {
		t.Errorf("after the second rotation: %v", files)
	} else {
		for key, n := range files {
			if newest := r.nodes[0].newestKey(); (n > 0) != (key == newest) {
				t.Errorf("%d files with key %s, the newest is %s", n, key, newest)
			}
		}
	}
	if err := r.restart(secondKey); err != nil {
		t.Fatal(err)
	}
	rows(3)
	// A rewritten snapshot still matches its manifest, and can be restored.
	v, err := r.nodes[0].commands.Snapshots.Verify(t.Context(), control.VerifyArgs{Tag: "after"}, nil)
	if err != nil || len(v.Problems) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	r.stop()
	r.replace(all)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	rows(2)
	if found := inClear(t, dir, "xsecret"); len(found) > 0 {
		t.Errorf("in clear: %v", found)
	}
	// Encryption is disabled.
	r.stop()
	r.nodes[0].opts.AtRest.Decrypt = true
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	r.rotate()
	r.nodes[0].opts.AtRest.Decrypt = false
	if err := r.restart(""); err != nil {
		t.Fatal(err)
	}
	rows(2)
}

// refusesKeys starts the node, which may be running, with keys with which it must not start.
func (r *restorer) refusesKeys(keys, message string) {
	r.t.Helper()
	if !r.killed[r.nodes[0]] {
		r.stop()
	}
	r.nodes[0].opts.AtRest.Keys = keys
	if err := r.start(); err == nil || !strings.Contains(err.Error(), message) {
		r.t.Errorf("with the keys %q: %v", keys, err)
	}
}

// newestKey returns the id of the key of new files.
func (n *Node) newestKey() string {
	uses, err := n.commands.Encryption.Uses()
	if err != nil || len(uses) == 0 {
		return ""
	}
	return uses[0].Key
}

// TestSnapshotsOfEncryptedNode makes snapshots of a node that encrypts its files, by command and by TRUNCATE, verifies
// them and the files of the node, shows a manifest, and takes back the rows. A snapshot whose key was removed is named
// with its key, and does not stop the node.
func TestSnapshotsOfEncryptedNode(t *testing.T) {
	r := &restorer{inProcess: openNodes(t, 216, 1, func(o *config.Options) {
		o.FS, o.AtRest.Keys = vfs.Default, firstKey
	})}
	r.c = r.connect(0)
	r.query(r.c, "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	r.query(r.c, "CREATE TABLE a.t (k int PRIMARY KEY, v text)")
	r.query(r.c, "INSERT INTO a.t (k, v) VALUES (1, 'one')")
	r.snapshot("first")
	r.query(r.c, "TRUNCATE a.t")
	tag := r.automaticTag(0, 1, "truncated")
	if err := r.importRows(0, tag, "a", "t"); err != nil {
		t.Fatal(err)
	}
	if got := len(r.query(r.c, "SELECT v FROM a.t").Rows); got != 1 {
		t.Errorf("%d rows after the import", got)
	}
	commands := r.nodes[0].commands
	v, err := commands.Data.Verify(t.Context(), control.VerifyFilesArgs{}, func(control.Progress) {})
	if err != nil || v.Files == 0 || len(v.Corrupt) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	m, err := commands.Snapshots.Show(t.Context(), control.VerifyArgs{Tag: tag}, nil)
	if err != nil || !strings.Contains(string(m), "CREATE TABLE a.t ") {
		t.Errorf("%s, %v", m, err)
	}
	// The copy of a snapshot keeps the key with which it was made.
	all := filepath.Join(r.nodes[0].opts.DataDir, "snapshots")
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(kept, os.DirFS(filepath.Join(all, "first"))); err != nil {
		t.Fatal(err)
	}
	if err := r.restart(secondKey + "," + firstKey); err != nil {
		t.Fatal(err)
	}
	r.rotate()
	if err := os.Rename(kept, filepath.Join(all, "old")); err != nil {
		t.Fatal(err)
	}
	if err := r.restart(secondKey); err != nil {
		t.Fatal(err)
	}
	commands = r.nodes[0].commands
	const missing = "which is not among the configured keys"
	if _, err := commands.Snapshots.Verify(t.Context(), control.VerifyArgs{Tag: "old"}, nil); err == nil ||
		!strings.Contains(err.Error(), missing) {
		t.Error(err)
	}
	if err := r.importRows(0, "old", "a", "t"); err == nil || !strings.Contains(err.Error(), missing) {
		t.Error(err)
	}
	for _, s := range r.snapshots() {
		if bad := strings.Contains(s.Problem, missing); bad != (s.Tag == "old") {
			t.Errorf("snapshot %s: %s", s.Tag, s.Problem)
		}
	}
	if out, err := commands.Snapshots.Verify(t.Context(), control.VerifyArgs{Tag: "first"}, nil); err != nil ||
		len(out.Problems) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
}
