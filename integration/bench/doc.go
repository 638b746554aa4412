// Command bench loads one or more servers over the CQL native protocol and reports throughput, latency, and the
// servers' CPU time for each operation. It uses little CPU time itself: it encodes requests for prepared statements
// directly, and pipelines them over a few connections, with one goroutine each.
//
// Servers are measured alternately in one run, each after its own warm-up, because CPU time per operation on a shared
// machine drifts over time; the report shows every round and the best one. The results do not apply to remote servers:
// the network is the loopback interface, and client and servers share the processors.
//
// "bench tables" does the same over HTTP: inserts, upserts, point queries, transactions of a hundred and pages of a
// thousand entities, for one durable node, a ring of four at quorum 3, and Azurite, as tables grow.
//
//	bench                     a cqld and a Cassandra node, new, with durable writes, alternately
//	bench -oracle 0           only cqld
//	bench -cqld 4 -oracle 4   rings of four at replication factor 4 and QUORUM
//	bench -cqld 4 -tls 4 -oracle 0   a ring without TLS between nodes and one with it
//	bench tables              one node, a ring of four and Azurite, over HTTP
//
//	round 1: cqld insert@64 · oracle insert@64 · cqld insert@256 · …
//	round 2: …
//
//	                    ┌─ connection 1: slots 0…31 ──▶ server 1
//	config.run ─▶ run ──┼─ connection 2: slots 0…31 ──▶ server 2
//	                    └─ …
//	           ◀─ outcome: operations, errors, latencies ─ measurement ─ report
//
// The load is a closed loop: each answer causes the next request, so the rate adapts to the server. The latencies of a
// closed loop hide pauses of the server, because no request is sent meanwhile (coordinated omission); they compare
// servers, and differ from the latencies under an open load.
//
// It is not the tool for operators: that is "cqld bench".
package main
