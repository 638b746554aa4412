// Package audit writes the audit log: who did what on this node, from where, and with which outcome. Its options, types
// and categories are Cassandra's; its entries are JSON objects, one a line.
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
// Entries contain no secrets: texts of statements are redacted by package cql before they are recorded, and URLs of
// Azure Tables by package azuretables. No setting executes a command.
package audit
