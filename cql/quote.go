package cql

import (
	"strings"

	"cqld/internal/keyword"
)

// QuoteString returns s as a string literal. Parse reads it back as the same string.
func QuoteString(s string) string { return string(appendString(nil, s)) }

// QuoteIdentifier returns name as an identifier. It quotes the name unless it consists of lower-case letters, digits
// and underscores and is not a reserved word.
func QuoteIdentifier(name string) string { return string(appendIdentifier(nil, name)) }

// ReservedWord reports whether name, in any case, cannot be an unquoted identifier. The list of keywords is
// Cassandra's.
func ReservedWord(name string) bool { return keyword.Reserved(strings.ToLower(name)) }

// plainIdentifier reports whether a name is parsed as itself without quotes.
func plainIdentifier(name string) bool {
	// Upper-case letters would be folded, so they need quotes.
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	for i := 1; i < len(name); i++ {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	// true and false are not in Cassandra's list, but are parsed as booleans.
	return !ReservedWord(name) && name != "true" && name != "false"
}

// appendIdentifier appends a name, quoted if it must be. identifier reads it back as the same name.
func appendIdentifier(dst []byte, name string) []byte {
	if plainIdentifier(name) {
		return append(dst, name...)
	}
	return appendQuoted(dst, name, '"')
}

// appendString appends a string literal.
func appendString(dst []byte, s string) []byte { return appendQuoted(dst, s, '\'') }

// appendQuoted appends s between quotes, every quote inside doubled.
func appendQuoted(dst []byte, s string, quote byte) []byte {
	dst = append(dst, quote)
	for i := 0; i < len(s); i++ {
		if s[i] == quote {
			dst = append(dst, quote)
		}
		// Bytes, not characters: no byte of a longer character equals a quote.
		dst = append(dst, s[i])
	}
	return append(dst, quote)
}

// appendQualifiedName appends a name with its keyspace, if it has one.
func appendQualifiedName(dst []byte, n QualifiedName) []byte {
	if n.Keyspace != "" {
		dst = appendIdentifier(dst, n.Keyspace)
		dst = append(dst, '.')
	}
	return appendIdentifier(dst, n.Name)
}

// appendFunctionName appends the name of a function. It quotes keywords with a syntax of their own, except TOKEN and
// COUNT, which name the functions.
func appendFunctionName(dst []byte, n QualifiedName) []byte {
	if n.Keyspace != "" {
		dst = append(appendIdentifier(dst, n.Keyspace), '.')
	}
	switch n.Name {
	case "token":
		return append(dst, n.Name...)
	// These words begin special forms of selectors or terms, so they are functions only in quotes.
	case "ttl", "writetime", "maxwritetime", "key", "cast", "json", "distinct", "expr":
		return appendQuoted(dst, n.Name, '"')
	}
	return appendIdentifier(dst, n.Name)
}

// appendTypeName appends the name of a user-defined type, quoted if it would otherwise be parsed as another type or
// rejected.
func appendTypeName(dst []byte, n QualifiedName) []byte {
	if n.Keyspace != "" {
		dst = append(appendIdentifier(dst, n.Keyspace), '.')
	}
	switch n.Name {
	// The last line contains the names that typeName rejects without quotes.
	case "ascii", "bigint", "blob", "boolean", "counter", "date", "decimal", "double", "duration", "float",
		"inet", "int", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid", "varchar", "varint",
		"frozen", "list", "map", "tuple", "vector",
		"ttl", "count", "writetime", "maxwritetime", "cast", "json", "distinct",
		"byte", "complex", "enum", "interval", "macaddr", "bitstring":
		return appendQuoted(dst, n.Name, '"')
	}
	return appendIdentifier(dst, n.Name)
}
