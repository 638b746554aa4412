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
//
// # Machines and shells
//
// A step of a machine takes an event, changes the state and returns effects as values: it neither sends, waits nor
// calls back. The shell takes the event, locks, steps, checks the invariants, unlocks, and performs the effects.
//
//	write.Machine   writeOp      one write at the replicas of its mutations
//	reading         readOp       one partition, or one range with one replica set
//	ranging         rangeOp      a range of the ring as a sequence of readings
//	ordering        orderOp      the newest timestamps, before a write to tables with write_ordering
//
// truncateOp is a machine and a shell in one type: its events are functions that return effects.
//
// # Locks
//
// The mutex of an operation is held only during a step. Steps use the view, the latencies and the clock, which have
// locks of their own and call nothing back. No lock is held while a replica, storage or a client is called.
//
// # Memory
//
// Operations are pooled together with their buffers and callbacks. An operation returns to its pool when no event can
// follow and no goroutine uses it. It is kept by outstanding answers, by its timer, by a possible cancellation, and
// by goroutines that perform its effects. One that has panicked never returns (guard.go).
//
// A page is valid until the callback that receives it returns. A read copies a page that it retains into a buffer,
// which it releases after the client's callback. A caller must never change mutations that it has passed to a write,
// because late hints contain them.
package coordinator
