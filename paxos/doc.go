// Package paxos executes conditional changes of a partition (lightweight transactions), and serial reads.
//
// Each partition has its own instance of Paxos, among its replicas. The Proposer of the node that received a request
// runs the rounds. Each replica has an acceptor (package acceptor), which stores promises, accepted proposals and
// decided ones. Both exchange ballots and proposals (package ballot). One round trip promises and reads, a second one
// accepts, and a change that a quorum accepted is committed as an ordinary write. Changes of one partition that wait at
// a node share the next round.
//
//	CAS ─▶ prepare + read ─▶ conditions ─▶ accept ─▶ commit ─▶ clients
//	         ▲    │ finish what is in progress,
//	         └────┘ bring what is missing
//
// The timestamps of a ballot's writes end at its time: a round of n changes has the 2n timestamps up to it. A proposal
// that another proposer completes keeps its timestamps, so a change that a replica has applied never gets another one.
//
// A proposer that settled the last ballot itself needs no promises (previous.go), and one that is the only voter needs
// no votes (alone.go). Proposers that compete for a partition ask its arbiter for turns (package contention). Repairs
// purge the state of acceptors, after SettleProposals has settled what is in progress (docs/adr/0015).
//
// A round is a machine and its shell. The machine is pure: its step takes an event, changes the state and returns
// effects as values. It neither sends, waits nor calls back, so each step is finished before the next one begins. The
// round, its shell, locks, steps, checks the invariants, sets the timer, unlocks, and performs the effects.
//
//	promise, vote, page, alarm ──▶ round ──▶ machine   which phase follows
//	                               ▲   │       attempts   how an attempt and the round end
//	                               └───┘ effects contender   turns among coordinators      poll   votes
//	                                               group       the members and their answers
//
// Invariants, which are checked after each step (check.go):
//
//  1. Neither the attempt nor its ballot moves back.
//  2. No more voters answer than there are, and no more agree than answer.
//  3. A proposal follows a quorum of promises. It is after the latest decided ballot, and after the one on which it
//     rests.
//  4. A proposal in doubt belongs to the members of the round, and is not later than the attempt.
//  5. Each member is answered once. A round that has ended has answered all, and has neither a turn nor an alarm.
//  6. A round that has not ended waits for an alarm, a turn, an effect or an answer.
//
// Package coordinator executes ordinary reads and writes; package replica controls storage access and admission.
package paxos
