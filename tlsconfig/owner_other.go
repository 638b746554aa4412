//go:build !unix

package tlsconfig

import "os"

// modesRestrict is false, because these systems use access control lists and report mode 0666 or 0444 for every file.
const modesRestrict = false

// ownedByRoot reports whether the file belongs to root, which these systems do not have.
func ownedByRoot(os.FileInfo) bool { return false }
