// Package audit writes the audit log: which client executed which operation on this node, from which address, and
// with which outcome. Its options, types and categories are Cassandra's; its entries are JSON objects, one a line.
//
// Servers record an Entry after each statement, request to Azure Tables, login and control operation. The Log filters
// it, encodes it into reused memory, and appends it to a queue that is bounded in entries and bytes. One goroutine
// writes the queue to a file, which is rotated by size and time; the oldest files are removed beyond a total size:
//
//	Record ── filter ── encode ── queue ── writer ── audit.log, audit-2026-01-31T10-00-00.000-time.log, …
//
// When the queue is full, Record waits (block: true), so that no entry is lost while the disk is slow, or drops the
// entry and counts it (block: false).
//
// Entries contain no secrets: package cql redacts texts of statements before they are recorded, and package
// azuretables redacts URLs. No setting executes a command.
package audit
