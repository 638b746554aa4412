//go:build unix

package control

import (
	"os"
	"syscall"
)

// modesRestrict reports whether the mode of a file says which users may read it.
const modesRestrict = true

// ownedByRoot reports whether a file belongs to root.
func ownedByRoot(info os.FileInfo) bool {
	// Files of other implementations of fs have no owner.
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid == 0
}
