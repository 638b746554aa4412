// Package javanumber parses numbers in options of keyspaces, tables and indexes as Java does, because Cassandra accepts
// what Java parses.
package javanumber
