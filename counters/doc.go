// Package counters updates counters: it finds the replica that leads an update, and leads updates as a replica.
//
//	client ─ Update ─▶ updating ─ VerbCounter, or Lead ─▶ queue of the partition ─▶ leading, a group of its updates
//	                      ▲                                    ▲                      │ read own shard, add
//	                      │                                    │                      │ write the new sum here, synced
//	                      │                                    └─ the next group ─────┤
//	                      └─ the outcome ◀─ coordinator.Write of the new sum ◀────────┘
//
// The package does not store counters: package shard converts additions to sums, which are ordinary cells. Nor does it
// replicate them: a new sum is an ordinary write, with the hints and read repairs of one. It does not retry an update
// that may have been counted: the client gets a timeout, and the addition counts once or not at all.
//
// Three state machines decide, each by pure steps (ADR 27). A step takes an event and returns effects; its shell holds
// the lock during the step, checks the invariants, and performs the effects without the lock.
//
//	machine    one for each                        events                               shell
//	updating   update, at its coordinator          answers of leaders, timers           updateOp
//	queue      partition, while a node leads it    updates, the end of a group          leader, a lock for each stripe
//	leading    group of updates, at their leader   results of the storage, the write    group
//
// Invariants:
//
//  1. A leader counts an update once, even if it receives it several times (shard.Windows), and the coordinator does
//     not resend an update that may have been counted.
//  2. No other replica gets a new sum before it is on the leader's disk: after a crash, the next sums are computed from
//     it.
//  3. Only its leader writes a shard, each time with a later timestamp (package shard).
//
// check.go has the invariants of the machines.
package counters
