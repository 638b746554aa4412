// Package write is the state machine of a write: it determines which nodes receive which mutations, counts their
// acknowledgements, and decides when the client is answered, when a node gets a hint, and when the write is planned
// again by a newer topology.
//
//	Begun ─ plan ─▶ Send to all live replicas, Hint for the others
//	                  │ Answered: enough acknowledgements ──────────────▶ Answer
//	                  │ Answered: an error ─────────────────────────────▶ Hint
//	                  │ Answered: a refusal, and the level is not met ──▶ Replan ─ Resumed ─▶ plan
//	                  └ Ticked: the deadline ─▶ Hint for nodes without an answer, Answer
//
// Step takes an Event and returns Effects as values. It neither sends, locks, waits nor calls back; it reads the
// snapshots of the schema and of the ring. Package coordinator is the shell: it holds a lock during a step, checks the
// invariants, releases the lock, and performs the effects.
//
// Invariants, which Check verifies after each step:
//
//  1. A part does not count more answers than it has replicas.
//  2. The parts that are not met are exactly those that Unmet counts.
//  3. A write that has not been answered waits for an answer, a hint or the end of a pause.
//  4. It does not wait for more answers than are outstanding.
//  5. It is answered with success only when each part is met.
//  6. It has an outcome only after it was answered.
//  7. No more plans are made than Config.PlansMax allows.
//  8. When nothing is outstanding, each replica has its mutations, or has been given a hint.
//  9. A hint on disk belongs to a node that was given one.
//  10. A node has one Target in a plan, with one part for each of its mutations.
package write
