package storekeys

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"cqld/node/config"
)

const key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// TestSourcesOfKeys reads the same key from a file, a command and the configuration.
func TestSourcesOfKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store.key")
	if err := os.WriteFile(file, []byte("# of node 1\n"+key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sources := map[string]config.KeySource{"a file": {KeyFile: file}, "the configuration": {Keys: key}}
	if runtime.GOOS != "windows" {
		sources["a command"] = config.KeySource{Command: []string{"cat", file}}
	}
	want := ""
	for name, source := range sources {
		keys, err := LoadFrom(t.Context(), &source)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want == "" {
			want = keys.Newest().String()
		}
		if keys.Newest().String() != want {
			t.Errorf("%s: key %s, want %s", name, keys.Newest(), want)
		}
		decrypting := config.AtRest{KeySource: source, Decrypt: true}
		if keys, err = Load(t.Context(), &decrypting); err != nil || keys.Newest().String() != "none" ||
			len(keys.IDs()) != 1 {
			t.Errorf("%s: decrypting with %v, %v", name, keys.IDs(), err)
		}
	}
	if keys, err := Load(t.Context(), new(config.AtRest)); keys != nil || err != nil {
		t.Errorf("without a source: %v, %v", keys, err)
	}
}

// TestErrorsNameTheOptionAndNoKey reads keys that are missing, wrong, or readable by others.
func TestErrorsNameTheOptionAndNoKey(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands and modes are of Unix")
	}
	dir := t.TempDir()
	open, empty := filepath.Join(dir, "open.key"), filepath.Join(dir, "empty.key")
	if err := os.WriteFile(open, []byte(key), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		source config.KeySource
		want   []string
	}{
		{config.KeySource{KeyFile: filepath.Join(dir, "none")}, []string{"encryption_key_file", "no such file"}},
		{config.KeySource{KeyFile: open}, []string{"encryption_key_file", "mode 0644", "chmod 600"}},
		{config.KeySource{KeyFile: empty}, []string{"encryption_key_file", "there is no key"}},
		{config.KeySource{Keys: key[1:]}, []string{"encryption_key", "is not 32 bytes"}},
		{config.KeySource{Command: []string{filepath.Join(dir, "none")}},
			[]string{"encryption_key_command", "no such file"}},
		{config.KeySource{Command: []string{"sh", "-c", "echo " + key + "; echo sealed >&2; exit 3"}},
			[]string{"encryption_key_command sh", "exit status 3", "sealed"}},
		{config.KeySource{Command: []string{"yes"}}, []string{"encryption_key_command yes", "printed more than"}},
	} {
		_, err := LoadFrom(t.Context(), &test.source)
		if err == nil {
			t.Errorf("%+v: no error", test.source)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v\ndoes not contain %q", err, want)
			}
		}
		if strings.Contains(err.Error(), key[8:40]) {
			t.Errorf("the error contains a key: %v", err)
		}
	}
}
