// Package cql is the language CQL: it turns text into a Statement and a
// Statement into text.
//
// It does not know what a statement means. No name is looked up, no type is
// resolved, no value is converted: that is query's. It holds no schema and
// does no I/O.
//
//	text ── Parse ──▶ Statement ── Format ──▶ canonical text
//	         │                                    │
//	   grammar (ANTLR)                            └─ Parse gives an equal Statement
//
// Parse accepts what Cassandra 5.0 accepts (CQL 3.4.7) and fails with a
// *SyntaxError in the words of Cassandra. The parser is made by ANTLR from the
// files of package grammar; nothing of it shows outside this package.
package cql
