// Package running remembers which directories hold rings of `cqld local` that run, so that `cqld ctl` and `cqld local
// stop` find them without --data-dir. It knows nothing about nodes: whether they run, their control sockets show. A
// file for each ring is in the cache directory of the user, for example on Linux:
//
//	~/.cache/cqld/rings/3f2a90c1d47be865     the name: the first 8 bytes of the SHA-256 of the path
//	  /home/ann/shop/cqld-data               the content: the path of the ring, and a line break
package running

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// directory returns the directory with a file for each ring, in the user's cache, which only the user can change. It is
// empty if there is none, for example in a container without a home directory. Rings of different users are therefore
// separate, also if they are on the same machine.
func directory() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "cqld", "rings")
}

// Add remembers the directory of a ring until forget is called. If that is not possible, the directory must be named
// with --data-dir. ring is an absolute path, because Rings is called in other working directories. A second ring in the
// same directory uses the same file.
func Add(ring string) (forget func()) {
	dir := directory()
	// Not an error: a ring must start in a container without a home directory too.
	if dir == "" || os.MkdirAll(dir, 0o700) != nil {
		return func() {}
	}
	sum := sha256.Sum256([]byte(ring))
	path := filepath.Join(dir, hex.EncodeToString(sum[:8]))
	if replace(path, ring+"\n") != nil {
		return func() {}
	}
	return func() { _ = os.Remove(path) } // if it remains, Rings finds no node there
}

// replace writes a file completely, or not at all: Rings removes a file that names no directory, such as one that is
// empty. The content is synced before the rename, so that a crash leaves the old file or the new one.
func replace(path, content string) error {
	// Beside the directory and not in it, where Rings would read the file before it is complete.
	f, err := os.CreateTemp(filepath.Dir(filepath.Dir(path)), "ring-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// ringsMax bounds the files that Rings reads; rings whose process was killed leave theirs.
const ringsMax = 256

// Rings returns the directories of rings for which runs is true, sorted, and forgets those that no longer exist. runs
// is called once for each file, and usually opens a socket. A ring that does not run but has its directory keeps its
// file, because it may be starting.
func Rings(runs func(ring string) bool) (rings []string) {
	dir := directory()
	if dir == "" {
		return nil
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	// The files are sorted by their names, so the selection is the same in each call.
	for _, f := range files[:min(len(files), ringsMax)] {
		path := filepath.Join(dir, f.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// Paths that end with a space are not found; they have to be named.
		ring := strings.TrimSpace(string(b))
		if info, err := os.Stat(ring); err != nil || !info.IsDir() {
			_ = os.Remove(path) // a further attempt follows
			continue
		}
		if runs(ring) {
			rings = append(rings, ring)
		}
	}
	slices.Sort(rings)
	return rings
}
