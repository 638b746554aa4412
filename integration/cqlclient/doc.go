// Package cqlclient is a small client of the CQL native protocol, v4 and v5. It sends one request, and returns the
// server's complete answer as decoded from the wire, with column types, warnings, paging state and the whole error
// body. The integration tests compare such answers between servers.
//
// It is not a driver: it has no pool, no retries, no topology and no concurrency on one connection. It shares no code
// with cqld's codec, so that an error in one does not compensate for an error in the other.
//
//	Dial ── STARTUP, SASL PLAIN ──▶ Conn ── Query/Prepare/Execute ──▶ Answer ── Text ──▶ canonical text
package cqlclient
