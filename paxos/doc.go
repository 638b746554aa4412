// Package paxos executes conditional changes of a partition (lightweight transactions), and serial reads.
//
// Each partition has its own instance of Paxos, among its replicas. The Proposer of the node that received a request
// runs the rounds. The Acceptor of each replica stores its promises, its accepted proposals and the decided ones in
// system.paxos. One round trip promises and reads, a second one accepts, and a change that a quorum accepted is
// committed as an ordinary write. Changes of one partition that wait at a node share the next round.
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
// purge the state of acceptors (purge.go, docs/adr/0015).
//
// Package coordinator executes ordinary reads and writes; package replica controls storage access and admission.
package paxos
