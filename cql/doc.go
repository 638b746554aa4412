// Package cql implements the syntax of CQL: it parses text into a Statement, and formats terms as text.
//
// It does not know what a statement means: package query resolves names and types and converts values. Package cql
// has no schema and does no I/O.
//
//	text ── Parse ──▶ Statement
//	         │             │
//	   grammar (ANTLR)     └─ in tests: formatted as canonical text, which Parse turns into an equal Statement
//
// Parse accepts what Cassandra 5.0 accepts (CQL 3.4.7) and fails with a *SyntaxError that has Cassandra's text. ANTLR
// generates the parser from the files of package grammar, which is not visible outside this package.
//
// The files:
//
//	ast*.go                the statements, and the relations, terms, selectors and types in them
//	parse.go, halt.go      the parser of a text, and where it stops
//	build*.go              from the parse tree to a statement
//	error.go               Cassandra's messages
//	format*.go, quote.go   terms, types, constraints and names as text
//	redact*.go             texts without secrets, for logs
//	limits.go, cost.go     bounds on a text, and the memory that parsing takes
//	stream.go, walk.go     the characters of a text, and the operands of selectors
//
// Statements, and all that they refer to, are immutable: prepared statements share them among requests.
package cql
