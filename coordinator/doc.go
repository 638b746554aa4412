// Package coordinator executes one request of a client at the replicas of its data: it selects the replicas, determines
// how many must answer, and combines their answers.
//
// It knows neither CQL nor the columns of tables nor Pebble, and it never blocks. Each request is a state machine. Its
// events (Start, a reply, a timer) come from the goroutines of connections and timers in production, and from the event
// queue in the simulation. The clock, randomness and the other nodes are injected. Package resolve reconciles the pages
// of replicas. The protocols that need more than one request are in packages of their own: hints, batchlog, counters,
// listing, paxos and repair.
//
//	Write ─ plan ─▶ all live replicas ─▶ done at BlockFor acknowledgements ─▶ hints for replicas without an answer
//	Read  ─ plan ─▶ 1 data + n-1 digests ─ equal ─▶ page
//	                     │ slow: speculate      └ differ ─▶ data from all ─ resolve ─▶ read repair ─▶ page
package coordinator
