package node

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cqld/auth"
	"cqld/node/config"
	"cqld/node/control"
)

// bytesOf returns the names and bytes of all files in a directory.
func bytesOf(t *testing.T, dir string) (all []byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all = append(append(append(all, path...), '\n'), b...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEncryptedBackupsRevealNothing backs up the same rows without encryption and with keys, and searches all bytes of
// the store for them, and for names of the schema and of roles. A ring with the key restores them, and a ring without
// it is refused.
func TestEncryptedBackupsRevealNothing(t *testing.T) {
	words := []string{"confidentialkeyspace", "confidentialtable", "confidentialrole", "value-7f3a9c55"}
	locations := map[bool]string{false: t.TempDir(), true: t.TempDir()}
	rings := map[bool]byte{false: 240, true: 241}
	for encrypted, dir := range locations {
		r := openNodes(t, rings[encrypted], 2, func(o *config.Options) {
			onDisk(o)
			if encrypted {
				o.BackupKeys.Keys = firstKey
			}
		})
		c := r.connect(0)
		r.query(c, "CREATE KEYSPACE confidentialkeyspace WITH replication = {'class': 'SimpleStrategy', "+
			"'replication_factor': 2}")
		r.query(c, "CREATE TABLE confidentialkeyspace.confidentialtable (k int PRIMARY KEY, v text)")
		r.query(c, "INSERT INTO confidentialkeyspace.confidentialtable (k, v) VALUES (1, 'value-7f3a9c55')")
		err := r.nodes[0].cluster.ProposeRoles(t.Context(), &auth.CreateRole{Name: "confidentialrole"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.backup(1, control.BackupArgs{Location: "file://" + dir, Name: "b"}); err != nil {
			t.Fatal(err)
		}
		all := bytesOf(t, dir)
		for _, word := range words {
			if bytes.Contains(all, []byte(word)) == encrypted {
				t.Errorf("encrypted %v: %q", encrypted, word)
			}
		}
	}
	location := "file://" + locations[true]
	without := openNodes(t, 242, 1, onDisk)
	if _, err := without.restore(0, control.RestoreArgs{Location: location}); err == nil ||
		!strings.Contains(err.Error(), "this node has no key: set backup_encryption_key_file") {
		t.Errorf("without a key: %v", err)
	}
	if _, err := without.backup(0, control.BackupArgs{Location: location, Name: "c"}); err == nil ||
		!strings.Contains(err.Error(), "this node has no key") {
		t.Errorf("without a key: %v", err)
	}
	with := openNodes(t, 243, 1, func(o *config.Options) {
		onDisk(o)
		o.BackupKeys.Keys = secondKey + "\n" + firstKey
	})
	if _, err := with.restore(0, control.RestoreArgs{Location: location}); err != nil {
		t.Fatal(err)
	}
	read := "SELECT v FROM confidentialkeyspace.confidentialtable"
	if got := with.answers(0, []string{read})[read]; len(got) != 1 || !strings.Contains(got[0], words[3]) {
		t.Errorf("%q", got)
	}
	if _, err := with.backup(0, control.BackupArgs{Location: "file://" + locations[false], Name: "c"}); err == nil ||
		!strings.Contains(err.Error(), "not encrypted, and this node encrypts backups") {
		t.Errorf("a backup to a location in clear: %v", err)
	}
}
