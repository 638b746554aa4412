package ctl

import (
	"fmt"
	"io"

	"cqld/node/control"
)

// rotateKeysCommand rewrites the files of one node, and waits for the job.
type rotateKeysCommand struct {
	Throughput int64 `default:"64" placeholder:"MIB" help:"Rewrite at most this many MiB a second; 0 for no bound."`
}

// Help describes the command.
func (*rotateKeysCommand) Help() string {
	return "Files that another key encrypts, and files in clear, are rewritten with the first key of the list. With " +
		"encryption_decrypt: true, encrypted files are rewritten in clear."
}

// Run rewrites files with the newest key, and prints which keys are still needed.
func (c *rotateKeysCommand) Run(s *session) error {
	rate, err := bytesPerSecond(c.Throughput)
	if err != nil {
		return err
	}
	return ask(s, control.RotateKeys, control.RotateArgs{BytesPerSecond: rate}, showRotated)
}

// showRotated prints the keys of files, and what an operator may do with the old ones.
func showRotated(w io.Writer, r control.Rotated) error {
	p := &printer{w: w}
	others, clear := 0, true
	for _, k := range r.Keys {
		p.line("%s: %s", keyName(k), keyText(k))
		if !k.Newest {
			others += k.Files
		} else if k.Key != inClear {
			clear = false
		}
	}
	switch {
	case others == 0 && clear:
		p.line("All files are in clear: the options of the encryption can be removed from the configuration.")
	case others == 0:
		p.line("All files have the newest key: the other keys can be removed from the configuration.")
	default:
		// Files that are open for writing use the key with which the node was started.
		p.line("Files that were not rewritten: %d. Restart the node, and run the command again.", others)
	}
	return p.err
}

// inClear is the key name of unencrypted files.
const inClear = "none"

// showEncryption prints how many files use each key. keys is empty without files.
func showEncryption(field func(name, format string, args ...any), keys []control.KeyUse) {
	if len(keys) == 0 {
		field("Encryption at rest", "none")
		return
	}
	field("Encryption at rest", "AES-256-CTR")
	for _, k := range keys {
		field("  "+keyName(k), "%s", keyText(k))
	}
}

// keyName formats a key for lists. Unencrypted files have no key.
func keyName(k control.KeyUse) string {
	if k.Key == inClear {
		return "in clear"
	}
	return "key " + k.Key
}

// keyText describes the files of one key.
func keyText(k control.KeyUse) string {
	text := fmt.Sprintf("%d files, %s", k.Files, size(k.Bytes))
	if k.Newest {
		text += ", and new files"
	}
	return text
}
