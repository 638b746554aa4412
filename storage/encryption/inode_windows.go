package encryption

import "io/fs"

// inode identifies a file on this machine, whatever its names are.
type inode struct{ device, number uint64 }

// inodeOf returns zero: the links of a file in clear are rewritten one by one.
func inodeOf(fs.FileInfo) inode { return inode{} }
