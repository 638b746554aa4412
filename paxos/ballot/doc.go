// Package ballot defines what proposers and acceptors of Paxos exchange: ballots, proposals with their history,
// promises, and the errors that change what a proposer does next.
//
// Its types are values: they have no lock, and a receiver copies what it keeps.
package ballot
