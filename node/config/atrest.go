package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"cqld/tlsconfig"
)

// KeySource is where keys are read. One of its three fields enables an encryption. Package storekeys reads the source
// when the node starts.
type KeySource struct {
	KeyFile string // encryption_key_file
	// Command and its arguments print the keys: encryption_key_command. No shell interprets them. It is read from the
	// configuration only, and no operation can set it while the node runs.
	Command []string
	Keys    string // encryption_key; it is for the environment
	// Prefix precedes the names of the options: backupPrefix, or nothing for the encryption of stored data.
	Prefix string
}

// backupPrefix precedes the names of the options of the encryption of backups.
const backupPrefix = "backup_"

// AtRest configures the encryption of what the node stores.
type AtRest struct {
	KeySource
	// Decrypt writes new files in clear, and needs the keys to read the others: encryption_decrypt.
	Decrypt bool

	// group is what transparent_data_encryption_options says.
	group tdeGroup
}

// tdeGroup is what transparent_data_encryption_options says: nothing, enabled: true or enabled: false.
type tdeGroup uint8

const (
	tdeAbsent tdeGroup = iota
	tdeEnabled
	tdeDisabled
)

// Used reports whether a source of keys is configured.
func (k *KeySource) Used() bool { return k.count() > 0 }

// count returns how many sources are configured.
func (k *KeySource) count() (n int) {
	for _, set := range []bool{k.KeyFile != "", len(k.Command) > 0, k.Keys != ""} {
		if set {
			n++
		}
	}
	return n
}

// Source describes the source of the keys for messages. It is empty if no keys are configured.
func (k *KeySource) Source() string {
	switch {
	case k.KeyFile != "":
		return k.Prefix + "encryption_key_file " + k.KeyFile
	case len(k.Command) > 0:
		return k.Prefix + "encryption_key_command " + k.Command[0]
	case k.Keys != "":
		return k.Prefix + "encryption_key"
	}
	return ""
}

// atRestSettings returns the options of the encryption of stored data and of backups.
func atRestSettings() map[string]setting {
	return map[string]setting{
		"encryption_key_file":                 text(func(o *Options) *string { return &o.AtRest.KeyFile }),
		"encryption_key":                      text(func(o *Options) *string { return &o.AtRest.Keys }),
		"encryption_key_command":              keyCommand(func(o *Options) *KeySource { return &o.AtRest.KeySource }),
		"encryption_decrypt":                  truth(func(o *Options) *bool { return &o.AtRest.Decrypt }),
		"transparent_data_encryption_options": setDataEncryption,

		backupPrefix + "encryption_key_file":    text(func(o *Options) *string { return &o.BackupKeys.KeyFile }),
		backupPrefix + "encryption_key":         text(func(o *Options) *string { return &o.BackupKeys.Keys }),
		backupPrefix + "encryption_key_command": keyCommand(func(o *Options) *KeySource { return &o.BackupKeys }),
	}
}

// keyCommand reads a program and its arguments: a list, or one text that is divided at spaces.
func keyCommand(of func(*Options) *KeySource) setting {
	return func(o *Options, v *yaml.Node) error {
		list, err := texts(v)
		if err != nil {
			return err
		}
		if v.Kind == yaml.ScalarNode {
			list = strings.Fields(v.Value)
		}
		if len(list) == 0 || list[0] == "" {
			return errors.New("expected a program and its arguments")
		}
		of(o).Command = list
		return nil
	}
}

// setDataEncryption reads Cassandra's group. Its keystores are Java formats, and its cipher is not cqld's: only enabled
// has an effect, so that a file with enabled: true never leaves the data in clear.
func setDataEncryption(o *Options, v *yaml.Node) error {
	if v.Kind == yaml.ScalarNode && v.Tag == "!!null" {
		return nil
	}
	if v.Kind != yaml.MappingNode {
		return errors.New("expected options such as enabled")
	}
	var ignored []string
	for i := 0; i+1 < len(v.Content); i += 2 {
		name, value := v.Content[i], v.Content[i+1]
		switch name.Value {
		case "enabled":
			on, err := truthOf(value)
			if err != nil {
				return fmt.Errorf("line %d: enabled: %w", name.Line, err)
			}
			o.AtRest.group = tdeDisabled
			if on {
				o.AtRest.group = tdeEnabled
			}
		case "chunk_length_kb", "cipher", "key_alias", "iv_length", "key_provider":
			ignored = append(ignored, name.Value)
		default:
			return fmt.Errorf("line %d: %s: unknown option", name.Line, name.Value)
		}
	}
	// The options of a disabled group are what every file of Cassandra contains.
	if o.AtRest.group == tdeEnabled && len(ignored) > 0 {
		o.Warnings = append(o.Warnings, "transparent_data_encryption_options: "+strings.Join(ignored, ", ")+
			" without effect: cqld encrypts with AES-256-CTR and keys of "+keySources)
	}
	return nil
}

// keySources are the options that name a source of keys.
const keySources = "encryption_key_file, encryption_key_command or encryption_key"

// validate reports more than one source. It opens nothing.
func (k *KeySource) validate(bad func(name, format string, args ...any)) {
	if k.count() > 1 {
		bad(fmt.Sprintf("%[1]sencryption_key_file, %[1]sencryption_key_command, %[1]sencryption_key", k.Prefix),
			"only one of them can be set")
	}
}

// validate reports contradictions. It opens nothing.
func (a *AtRest) validate(bad func(name, format string, args ...any)) {
	sources := a.count()
	switch {
	case sources > 1:
		a.KeySource.validate(bad)
	case a.group == tdeEnabled && sources == 0:
		bad("transparent_data_encryption_options", "enabled: true needs %s; keystores of Java are not supported",
			keySources)
	// The group is in every file of Cassandra: it must not leave data in clear although a key is set.
	case a.group == tdeDisabled && sources > 0 && !a.Decrypt:
		bad("transparent_data_encryption_options", "enabled: false contradicts %s: set enabled: true or remove the "+
			"group; encryption_decrypt: true decrypts the data", a.Source())
	case a.Decrypt && sources == 0:
		bad("encryption_decrypt", "needs the keys of the encrypted files: %s", keySources)
	case a.Decrypt && a.group == tdeEnabled:
		bad("encryption_decrypt", "contradicts enabled: true of transparent_data_encryption_options")
	}
}

// checkFile refuses a configuration file that others can read if it contains keys, and one that they can change if it
// names a program to run.
func (k *KeySource) checkFile(path string, info os.FileInfo) error {
	switch {
	case k.Keys != "":
		return tlsconfig.CheckPrivate(path, k.Prefix+"encryption_key", info)
	case len(k.Command) > 0:
		return tlsconfig.CheckPrivate(path, k.Prefix+"encryption_key_command", info)
	}
	return nil
}
