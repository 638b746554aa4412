// Package coordinator takes one request to its replicas: which they are, how many must answer, and
// what their answers together say.
//
// It does not know CQL, tables' columns or Pebble, and it never waits: every request is a small
// state machine whose events (Start, a reply, a timer) come from whoever has them — a connection's
// goroutine in production, the event queue in simulation. Time, chance and the other nodes are
// handed in. What several pages say is package resolve's, what a counter's shards add up to package
// counter's; making replicas equal without a request is package repair's.
//
//	Write ─ plan ─▶ all live replicas ─▶ done at BlockFor acknowledgements ─▶ hints for the silent
//	Read  ─ plan ─▶ 1 data + n-1 digests ─ equal ─▶ page
//	                     │ slow: speculate      └ differ ─▶ data from all ─ resolve ─▶ read repair ─▶ page
package coordinator
