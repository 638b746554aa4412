// Package keyword contains the reserved words of CQL, which packages below and above the parser need to quote names. It
// has no dependencies, so that package schema can quote names without the parser.
package keyword

// Reserved reports whether the lower-case word must be quoted to be a name. The list is Cassandra's: true and false are
// not in it, although the grammar reads them as booleans. The case of the word matters: the caller converts it.
func Reserved(word string) bool {
	switch word {
	case "add", "allow", "alter", "and", "apply", "asc", "authorize", "batch", "begin", "by",
		"columnfamily", "create", "delete", "desc", "describe", "drop", "entries", "execute",
		"from", "full", "grant", "if", "in", "index", "infinity", "insert", "into", "is",
		"keyspace", "limit", "materialized", "modify", "nan", "norecursive", "not", "null",
		"of", "on", "or", "order", "primary", "rename", "revoke", "schema", "select", "set",
		"table", "to", "token", "truncate", "unlogged", "update", "use", "using", "view",
		"where", "with":
		return true
	}
	return false
}
