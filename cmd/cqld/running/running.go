// Package running remembers which directories hold rings of `cqld local` that run, so that `cqld ctl` and `cqld local
// stop` find them without --data-dir. It knows nothing about nodes: whether they run, their control sockets show.
package running

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// directory returns the directory with a file for each ring, in the user's cache, which only the user can change. It is
// empty if there is none, for example in a container without a home directory.
func directory() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "cqld", "rings")
}

// Add remembers the directory of a ring until forget is called. If that is not possible, the directory must be named
// with --data-dir.
func Add(ring string) (forget func()) {
	dir := directory()
	if dir == "" || os.MkdirAll(dir, 0o700) != nil {
		return func() {}
	}
	sum := sha256.Sum256([]byte(ring))
	path := filepath.Join(dir, hex.EncodeToString(sum[:8]))
	if os.WriteFile(path, []byte(ring+"\n"), 0o600) != nil {
		return func() {}
	}
	return func() { _ = os.Remove(path) } // if it remains, Rings finds no node there
}

// ringsMax bounds the files that Rings reads; rings whose process was killed leave theirs.
const ringsMax = 256

// Rings returns the directories of rings for which runs is true, sorted, and forgets those that no longer exist.
func Rings(runs func(ring string) bool) (rings []string) {
	dir := directory()
	if dir == "" {
		return nil
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, f := range files[:min(len(files), ringsMax)] {
		path := filepath.Join(dir, f.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
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
