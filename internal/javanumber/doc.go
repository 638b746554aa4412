// Package javanumber parses numbers in options of keyspaces, tables and indexes as Java does, because Cassandra accepts
// what Java parses. It does not parse numbers in CQL, which have a syntax of their own.
package javanumber
