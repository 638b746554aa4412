//go:build !unix

package node

import "os"

// ownedByRoot reports false: the system has no root.
func ownedByRoot(os.FileInfo) bool { return false }
