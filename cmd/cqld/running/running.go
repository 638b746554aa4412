// Package running records the directories of running rings of `cqld local`, so that `cqld ctl` and `cqld local stop`
// find them without --data-dir. It does not check nodes: their control sockets show whether they run. Each ring has a
// file in the user's cache directory, for example on Linux:
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

// directory returns the directory with a file for each ring, in the user's cache, so different users have separate
// rings. It is empty if there is no cache directory, for example in a container without a home directory.
func directory() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "cqld", "rings")
}

// Add records the directory of a ring until forget is called. If it cannot, the user has to set --data-dir. ring is an
// absolute path, because Rings is called in other working directories. A second ring in the same directory uses the
// same file.
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
	return func() { _ = os.Remove(path) } // if the file remains, Rings finds no running node there
}

// replace writes a file completely or not at all, because Rings removes files without a valid path. The content is
// synced before the rename, so after a crash the file is either old or new.
func replace(path, content string) error {
	// Not in the directory itself, where Rings would read the incomplete file.
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

// ringsMax bounds the files that Rings reads. Killed processes leave their files.
const ringsMax = 256

// Rings returns the sorted directories of rings for which runs returns true, and removes the files of directories that
// no longer exist. runs is called once for each file, and usually opens a socket. The file of a ring that is not
// running is kept, because the ring may be starting.
func Rings(runs func(ring string) bool) (rings []string) {
	dir := directory()
	if dir == "" {
		return nil
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	// ReadDir sorts by name, so the selection is the same in each call.
	for _, f := range files[:min(len(files), ringsMax)] {
		path := filepath.Join(dir, f.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// A path that ends with a space is not found; the user has to set --data-dir.
		ring := strings.TrimSpace(string(b))
		if info, err := os.Stat(ring); err != nil || !info.IsDir() {
			_ = os.Remove(path) // retried by the next call
			continue
		}
		if runs(ring) {
			rings = append(rings, ring)
		}
	}
	slices.Sort(rings)
	return rings
}
