// Package paxos makes conditional changes of a partition: lightweight transactions, and the serial reads that see them.
//
// Paxos runs for each partition, among its replicas. The Proposer of the node that received a request runs the rounds;
// the Acceptor of each replica keeps what it promised, accepted and knows to be decided in system.paxos. One round trip
// promises and reads, one accepts, and what a quorum accepted is committed as an ordinary write. Changes of one partition
// that wait at a node go together in the next round.
//
//	CAS ─▶ prepare + read ─▶ conditions ─▶ accept ─▶ commit ─▶ clients
//	         ▲    │ finish what is in progress,
//	         └────┘ bring what is missing
//
// The timestamps of what a ballot writes end at its time: a round of n changes has the 2n timestamps up to it. A proposal
// that another proposer finishes keeps its timestamps: what a replica may have applied never gets another one.
//
// A proposer that settled the last ballot itself needs no promises (previous.go), and one that is the only voter needs no
// votes (alone.go). Proposers that compete for a partition ask its arbiter for turns (package contention). Repairs purge the
// state of acceptors (purge.go, docs/adr/0015).
//
// Ordinary reads and writes are of package coordinator, storage access and admission of package replica.
package paxos
