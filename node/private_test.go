package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheDataDirectoryIsPrivate closes a directory that others could enter.
func TestTheDataDirectoryIsPrivate(t *testing.T) {
	for _, before := range []os.FileMode{0, 0o755, 0o700} {
		dir := filepath.Join(t.TempDir(), "data")
		if before != 0 {
			if err := os.Mkdir(dir, before); err != nil {
				t.Fatal(err)
			}
		}
		if err := makePrivate(dir, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("mode %o before, %o after", before, info.Mode().Perm())
		}
	}
}

// TestAFileWithKeysThatOthersReadIsNamed warns of keys in a file that is not private, and only then.
func TestAFileWithKeysThatOthersReadIsNamed(t *testing.T) {
	const keys = "tables_accounts: [ { name: races, key: cmFjZXMgcmFjZXMgcmFjZXMh } ]\n"
	for _, c := range []struct {
		text  string
		mode  os.FileMode
		warns bool
	}{{keys, 0o644, true}, {keys, 0o640, true}, {keys, 0o600, false}, {"cluster_name: x\n", 0o644, false}} {
		path := filepath.Join(t.TempDir(), "cqld.yaml")
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		o := DefaultOptions()
		if err := o.LoadFile(path); err != nil {
			t.Fatal(err)
		}
		if warned := len(o.Warnings) == 1 && strings.Contains(o.Warnings[0], path); warned != c.warns {
			t.Errorf("mode %o of %q: warnings %q", c.mode, c.text, o.Warnings)
		}
	}
}
