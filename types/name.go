package types

import "strings"

// QuoteName spells a name as CQL prints it: in double quotes unless it is made of lower-case
// letters, digits and underscores, begins with a letter, and is not a reserved word.
func QuoteName(name string) string {
	if isPlainName(name) && !isReserved(name) {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

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

// isReserved knows the words that cannot name anything without quotes.
func isReserved(name string) bool {
	switch name {
	case "add", "allow", "alter", "and", "apply", "asc", "authorize", "batch", "begin", "by",
		"columnfamily", "create", "delete", "desc", "describe", "drop", "entries", "execute", "from",
		"full", "grant", "if", "in", "index", "infinity", "insert", "into", "is", "keyspace", "limit",
		"materialized", "modify", "nan", "norecursive", "not", "null", "of", "on", "or", "order",
		"primary", "rename", "revoke", "schema", "select", "set", "table", "to", "token", "truncate",
		"unlogged", "update", "use", "using", "view", "where", "with":
		return true
	}
	return false
}
