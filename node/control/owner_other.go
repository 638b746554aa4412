//go:build !unix

package control

import "os"

// modesRestrict is false: the system has access control lists, and reports mode 0666 or 0444 for every file.
const modesRestrict = false

// ownedByRoot reports false: the system has no root.
func ownedByRoot(os.FileInfo) bool { return false }
