package types

import (
	"strings"

	"cqld/internal/keyword"
)

// QuoteName returns a name as CQL prints it: in double quotes, unless it consists of lower-case letters, digits and
// underscores, begins with a letter, and is not a reserved word. Double quotes in the name are doubled.
//
//	name, n_1          as they are
//	Name, 1n, _n, ""   in double quotes
//	a"b                "a""b"
//	select             "select", because it is reserved
func QuoteName(name string) string {
	if isPlainName(name) && !keyword.Reserved(name) {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// isPlainName reports whether CQL reads the name back as it is, apart from reserved words.
func isPlainName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || i > 0 && (c == '_' || c >= '0' && c <= '9') {
			continue
		}
		return false
	}
	return name != ""
}
