//go:build unix

package encryption

import (
	"io/fs"
	"syscall"
)

// inode identifies a file on this machine, whatever its names are.
type inode struct{ device, number uint64 }

// inodeOf returns the inode of a file, or zero if its file system has none.
func inodeOf(info fs.FileInfo) inode {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return inode{uint64(st.Dev), uint64(st.Ino)}
	}
	return inode{}
}
