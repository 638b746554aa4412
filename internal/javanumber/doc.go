// Package javanumber parses numbers in options of keyspaces, tables and indexes as Java does, because Cassandra accepts
// what Java parses. Functions in Java use it, too. It does not parse numbers in CQL, which have a syntax of their own.
// For example:
//
//	ParseInt("+٣", 32)       3
//	ParseUnsigned("+3")      refused
//	ParseDouble(" 1.5f ")    1.5
//	ParseDouble("1e400")     Infinity
//	ParseDouble("inf")       an error
package javanumber
