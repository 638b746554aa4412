// Package acceptor is the acceptor of a node in every instance of Paxos whose partition it stores, and the messages
// with which proposers reach the acceptors of all nodes.
//
// The state of a partition (the latest ballot promised, the latest proposal accepted, the latest change decided) is a
// row of system.paxos. It is stored under the partition's own key, so that it moves with the partition's data when the
// ring changes. An Acceptor answers only after what it confirms is durable.
//
//	proposer ─▶ Directory ─┬─▶ Acceptor of this node ─▶ steps ─▶ cache │ system.paxos ─▶ replica.Local ─▶ storage
//	                       └─▶ messages ─▶ Serve ─▶ Acceptor of another node
//	repair ───▶ Purge ─────────────────────────────▶ states up to the low bound are listed and deleted
//
// Requests for one partition are executed one after the other (steps.go), each from the read of the state to the write
// of its successor. Requests for different partitions are independent.
//
// Invariants, which are checked before each write (state.go):
//
//  1. A promised ballot is after every ballot that the acceptor knows, including the table's low bound.
//  2. An accepted proposal is not before the latest ballot that the acceptor knows.
//  3. The latest ballot of a partition never moves back, except for state up to the low bound, which repairs purge.
//
// Package paxos contains the proposer. Package ballot contains the values that both exchange.
package acceptor
