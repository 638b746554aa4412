package control

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPasswordFilesArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	for _, c := range []struct {
		mode    os.FileMode
		content string
		want    string
	}{
		{0o600, "secret\n", ""}, {0o400, "secret", ""}, {0o600, "secret\r\nrest", ""},
		{0o644, "secret\n", "mode 0644"}, {0o660, "secret\n", "mode 0660"},
		{0o604, "secret\n", "mode 0604"}, {0o600, "\n", "is empty"},
		{0o600, strings.Repeat("x", passwordFileMax+1), "more than"},
	} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := ReadPasswordFile(path)
		if c.want == "" && (err != nil || got != "secret") || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("mode %o: %q, %v", c.mode, got, err)
		}
		if err == nil && strings.Contains(fmt.Sprint(err), "secret") {
			t.Error("the error contains the password")
		}
	}
	if os.Geteuid() == 0 { // a file of root that its group may read
		for _, mode := range []os.FileMode{0o440, 0o640} {
			if err := os.Chmod(path, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			if got, err := ReadPasswordFile(path); err != nil || got != "secret" {
				t.Errorf("mode %o: %v", mode, err)
			}
		}
	}
}
