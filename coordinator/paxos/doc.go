// Package paxos has the values of Paxos that need no messages: ballots, proposals and their histories, and the command
// and the pages of a round that several conditional changes share.
//
//	Ballot ─ Proposal ─ History ── FateOf   what became of a proposal in doubt
//	Join ── Joined   one read for all changes of a round, and what each of them is shown
//
// Who votes, and in which order, is decided by package coordinator; acceptors are of package replica.
package paxos
