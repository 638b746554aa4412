// Package storekeys reads the keys of the encryption at rest, and of backups, from a file, the configuration or a
// command.
//
// The keys are read once, when a node starts. Errors name the option and the reason, and never contain a key.
package storekeys

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/node/config"
	"cqld/storage/encryption"
	"cqld/tlsconfig"
)

const (
	// textMax bounds the text of the keys, with comments.
	textMax = 64 << 10
	// commandTimeout bounds the command, for example a request to a key management service.
	commandTimeout = 30 * time.Second
	// shownMax bounds what an error shows of the messages of a command.
	shownMax = 300
)

// Load returns the keys of the encryption at rest. nil means that no keys are configured and nothing is encrypted.
func Load(ctx context.Context, a *config.AtRest) (*encryption.Keys, error) {
	keys, err := LoadFrom(ctx, &a.KeySource)
	if keys != nil && a.Decrypt {
		keys = keys.Decrypting()
	}
	return keys, err
}

// LoadFrom returns the keys of a source. It is nil if the source is not configured.
func LoadFrom(ctx context.Context, source *config.KeySource) (*encryption.Keys, error) {
	if !source.Used() {
		return nil, nil
	}
	text, err := read(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source.Source(), err)
	}
	keys, err := encryption.ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source.Source(), err)
	}
	return keys, nil
}

// Disk returns a file system that encrypts with keys, or base if they are nil. It refuses directories with files that
// need another key. It is called before anything reads them: files whose key is missing would be taken for corrupt
// ones, and repaired from other nodes. A nil base means the file system of the machine.
func Disk(base vfs.FS, keys *encryption.Keys, dirs ...string) (vfs.FS, error) {
	if base == nil {
		base = vfs.Default
	}
	if err := encryption.Check(base, keys, dirs...); err != nil {
		return nil, err
	}
	if keys == nil {
		return base, nil
	}
	return encryption.New(base, keys, rand.Reader), nil
}

// read returns the text of the keys.
func read(ctx context.Context, source *config.KeySource) (string, error) {
	switch {
	case source.KeyFile != "":
		return readFile(source.KeyFile)
	case len(source.Command) > 0:
		return run(ctx, source.Command)
	}
	return source.Keys, nil
}

// readFile reads a file that only its owner may read. The mode is one of the file that was opened, so that a file that
// replaces it has no effect.
func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if err := tlsconfig.CheckPrivate(path, "encryption keys", info); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, textMax+1))
	if err == nil && len(b) > textMax {
		err = fmt.Errorf("is larger than %d bytes", textMax)
	}
	return string(b), err
}

// run runs a command and returns its output. The messages of a command that fails are part of the error, its output is
// not.
func run(ctx context.Context, command []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	output, messages := limited{ends: true}, limited{}
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Stdout, c.Stderr = &output, &messages
	// A child that keeps the output open does not block the node.
	c.WaitDelay = time.Second
	err := c.Run()
	switch {
	case output.exceeded:
		return "", fmt.Errorf("printed more than %d bytes", textMax)
	case ctx.Err() != nil:
		return "", fmt.Errorf("did not end within %v", commandTimeout)
	case err != nil:
		text := strings.TrimSpace(messages.text.String())
		return "", fmt.Errorf("%w: %s", err, text[:min(len(text), shownMax)])
	}
	return output.text.String(), nil
}

// limited keeps at most textMax bytes of its input.
type limited struct {
	// text is not embedded: io.Copy would call its ReadFrom, which has no bound.
	text     bytes.Buffer
	exceeded bool
	// ends means that further bytes are an error, which ends the command; otherwise they are dropped.
	ends bool
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.text.Len()+len(p) > textMax {
		if l.exceeded = true; l.ends {
			return 0, io.ErrShortWrite
		}
		return len(p), nil
	}
	return l.text.Write(p)
}
