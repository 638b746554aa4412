package control

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// TokenName is the name of the file in a node's data directory that contains the token of its control_address.
const TokenName = "control.token"

// EnsureToken returns the token of a data directory, and creates it if it does not exist. The token stays the same for
// the life of the data directory. An existing file that cannot be used is an error and is not replaced. Two processes
// cannot use one data directory at once, so nothing locks the file between the read and the creation.
func EnsureToken(dir string) (string, error) {
	path := filepath.Join(dir, TokenName)
	token, err := ReadToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	token = rand.Text()
	// O_EXCL refuses a file or link that appeared after the check.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("control: make a token: %w", err)
	}
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("control: make a token: %w", err), os.Remove(path))
	}
	return token, nil
}

// ReadToken returns the token in a file, which only its owner may read. It refuses a file that other users may read,
// and one with a token that is too short.
func ReadToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("control: %w", err)
	}
	if mode := info.Mode().Perm(); modesRestrict && mode&0o077 != 0 {
		return "", fmt.Errorf("control: %s has mode %04o, so other users may read it; set it to 0600", path, mode)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("control: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if len(token) < tokenBytesMin {
		return "", fmt.Errorf("control: %s does not contain a token of at least %d characters", path, tokenBytesMin)
	}
	return token, nil
}

// tokenBytesMin is the minimum length of a token. EnsureToken creates 26 characters, which have 128 random bits.
const tokenBytesMin = 16
