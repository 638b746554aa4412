package backup

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Store is a directory that holds backups. It is safe for concurrent use.
type Store struct {
	files files
	// location is the URL, which contains no credentials (CheckLocation).
	location string
}

// CheckLocation returns why a text is not the URL of a store. URLs are in jobs, logs and messages between nodes, so one
// that contains credentials is refused; the error does not repeat it.
func CheckLocation(location string) error {
	_, err := parseLocation(location)
	return err
}

// parseLocation parses the URL of a store.
func parseLocation(location string) (*url.URL, error) {
	u, err := url.Parse(location)
	if err != nil {
		// The error of url.Parse has the text, which may contain a password.
		return nil, errors.New("backup: the location is not a URL; an example is file:///mnt/backups")
	}
	// Credentials are first: no other error may show a text that contains them.
	switch {
	case u.User != nil:
		return nil, errors.New("backup: the location contains credentials: remove the user and password")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("backup: a location has no parameters: remove the part after %q", "?")
	case u.Scheme == "":
		return nil, errors.New("backup: the location is not a URL; an example is file:///mnt/backups")
	case u.Scheme != "file":
		return nil, fmt.Errorf("backup: locations of kind %.20q are not supported: use a directory that all nodes "+
			"have mounted, as file:///DIRECTORY", u.Scheme)
	case u.Host != "":
		return nil, fmt.Errorf("backup: the location %s names a host: a directory has three slashes, file:///%s%s",
			location, u.Host, u.Path)
	case len(u.Path) < 2:
		return nil, fmt.Errorf("backup: the location %s names no directory", location)
	}
	return u, nil
}

// Open opens the store at a URL, whose directory is on disk. It creates nothing, and keeps nothing open: each operation
// opens the files that it needs.
func Open(disk vfs.FS, location string) (*Store, error) {
	u, err := parseLocation(location)
	if err != nil {
		return nil, err
	}
	dir := filepath.Clean(filepath.FromSlash(u.Path))
	// A directory that is missing is probably one that is not mounted.
	info, err := disk.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("backup: open %s: %w; create or mount the directory first", location, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("backup: open %s: it is not a directory", location)
	}
	return &Store{directory{disk, dir}, strings.TrimSuffix(location, "/")}, nil
}

// failed adds the operation and the store to an error.
func (s *Store) failed(operation string, err error) error {
	return fmt.Errorf("backup: %s in %s: %w", operation, s.location, err)
}
