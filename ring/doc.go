// Package ring computes placement: which token a partition key has, which nodes hold a token, and how many of them
// must answer an operation. It is pure: it uses no I/O, no clock and no randomness.
//
// It does not know whether a node is alive (package cluster does) or how to reach one (package messaging does).
//
//	partition key ──Murmur3──▶ Token ──Topology.Placement(Replication)──▶ ReplicaSet ──Consistency.BlockFor──▶ n
//
//	        token of A      token of B                     token of A
//	 ───────────┼───────────────┼──────── … ───────────────────┼─────
//	            (  range of B   ]                              ( wraps to the first token
package ring
