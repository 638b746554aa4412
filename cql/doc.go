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
package cql
