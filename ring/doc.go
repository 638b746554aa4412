// Package ring is placement: which token a partition key has, which nodes hold a token, and how
// many of them an operation must hear from. It is pure: no I/O, no clock, no chance.
//
// It does not know whether a node is alive (cluster does), nor how to reach one (messaging does).
//
//	partition key ──Murmur3──▶ Token ──Topology.Placement(Replication)──▶ ReplicaSet ──Consistency.BlockFor──▶ n
//
//	        token of A      token of B                     token of A
//	 ───────────┼───────────────┼──────── … ───────────────────┼─────
//	            (  range of B   ]                              ( wraps to the first token
package ring
