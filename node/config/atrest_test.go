package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEncryptionOfStoredData reads each form of the options, and refuses what would leave data in clear that an
// operator believes encrypted.
func TestEncryptionOfStoredData(t *testing.T) {
	const key, group = "encryption_key_file: store.key\n", "transparent_data_encryption_options: "
	for text, want := range map[string]string{
		"":                                "",
		key:                               "",
		key + group + "{ enabled: true }": "",
		key + group + "{ cipher: x }":     "",
		key + "encryption_decrypt: true":  "",
		"encryption_key_command: [vault, read, '-field=key', cqld]":      "",
		"encryption_key_command: vault read -field=key cqld":             "",
		group + "{ enabled: false }":                                     "",
		group + "{ enabled: true }":                                      "needs encryption_key_file",
		key + group + "{ enabled: false }":                               "contradicts encryption_key_file",
		"encryption_decrypt: true":                                       "needs the keys",
		key + "encryption_key: x":                                        "only one of them",
		"encryption_key_command: []":                                     "expected a program",
		group + "{ enable: true }":                                       "unknown option",
		key + "encryption_decrypt: true\n" + group + "{ enabled: true }": "contradicts enabled",
	} {
		o := Default()
		err := o.parse("c.yaml", []byte(text))
		if err == nil {
			err = o.Validate()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
		if c := o.AtRest.Command; c != nil && !slices.Equal(c, []string{"vault", "read", "-field=key", "cqld"}) {
			t.Errorf("%s: command %q", text, c)
		}
	}
	o := Default()
	if err := o.LoadEnvironment([]string{"CQLD_ENCRYPTION_KEY=00ff"}); err != nil || o.AtRest.Keys != "00ff" {
		t.Errorf("%q, %v", o.AtRest.Keys, err)
	}
}

// TestFileWithKeysIsPrivate refuses a file that others can read and that contains keys or a command.
func TestFileWithKeysIsPrivate(t *testing.T) {
	for _, text := range []string{"encryption_key: '0001'", "encryption_key_command: [cat, key]"} {
		path := filepath.Join(t.TempDir(), "cqld.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		o := Default()
		if err := o.LoadFile(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestKeysAreNotShown searches system_views.settings for the key.
func TestKeysAreNotShown(t *testing.T) {
	o := Default()
	o.AtRest.Keys = "secret of the store"
	for name, value := range o.Settings() {
		if strings.Contains(value, "secret") {
			t.Errorf("%s shows the key", name)
		}
	}
}
