//go:build unix

package tlsconfig

import (
	"os"
	"syscall"
)

// modesRestrict reports whether the mode of a file says which users may read it.
const modesRestrict = true

// ownedByRoot reports whether the file belongs to root.
func ownedByRoot(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid == 0
}
