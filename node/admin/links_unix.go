//go:build unix

package admin

import (
	"io/fs"
	"syscall"
)

// linked returns the number of hard links of a file.
func linked(_ string, info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}
