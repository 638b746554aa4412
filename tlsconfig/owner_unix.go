//go:build unix

package tlsconfig

import (
	"os"
	"syscall"
)

// ownedByRoot reports whether the file belongs to root.
func ownedByRoot(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid == 0
}
