// Package process starts, kills and stops servers as separate processes: rings of cqld nodes from a freshly built
// binary, and nodes of the reference Cassandra. Tests and the benchmark use it. It knows only the servers' command
// lines and their answers to clients.
//
//	Build ─▶ binary ─▶ NewRing ─▶ Ring{Servers, Spare} ── Start ─▶ processes of "cqld start"
//	         NewOracle ─▶ Ring ── StartOracle ─▶ Cassandra, by tools/oracle
//	         NewAzurite ─▶ Ring of one ── Servers[0].Start
//
// A ring of n nodes has n addresses of 127.77.0.0/16 with the default ports. Where only 127.0.0.1 exists, the nodes
// have ports of their own instead.
//
// It asserts nothing about answers, and it is not safe for concurrent use, except that different servers may be started
// and stopped concurrently.
package process
