// Package cqlclient is a small client of the CQL native protocol, v4 and v5, that hides nothing: it sends one request,
// and returns the server's answer as decoded from the wire, with column types, warnings, paging state and the complete
// error body. The integration tests compare such answers between servers.
//
// It is not a driver: no pool, no retries, no topology, no concurrency on one connection, and it shares no code with
// cqld's own codec, so that a fault of one does not hide in the other.
//
//	Dial ── OPTIONS, STARTUP ──▶ Conn ── Query/Prepare/Execute ──▶ Answer ── Text ──▶ canonical text
package cqlclient
