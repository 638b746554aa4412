// Package cluster maintains the replicated metadata (members, tokens, keyspaces and tables) and each node's own view of
// which members are alive.
//
// The metadata are a Raft log of commands. Every node applies the same commands to the same state (package metadata)
// and publishes the result as an immutable value, which readers load without a lock. Liveness is never stored: a node
// that is down stays a member.
//
// Package cluster does not replicate rows (package coordinator does) and does not move data between nodes. It owns no
// goroutine: package node calls Run, the one loop that owns Raft, and events are posted to it.
//
//	Propose ─▶ Raft ─▶ committed on a majority ─▶ apply on every node ─▶ Metadata{Epoch, Schema, Topology}
//	                                                  └─▶ Applied to all peers: Propose returns when every
//	                                                      live node has it
//	heartbeats, streams opened or ended ─▶ detector ─▶ Alive
//
// # The loop
//
// One loop runs all events one at a time: messages from other nodes, ticks, and calls on this node. After each batch of
// queued events it processes Raft's Ready: it stores entries and votes with one sync, sends the messages that promise
// them, and applies committed entries. Fields without a lock or an atomic type belong to the loop. The loop calls
// functions whose names begin with Start, and they call back in the loop. Functions that take a context wait for the
// loop, so the loop must not call them.
//
// The queue of the loop is bounded, and never blocks the posting goroutines of the network and of timers. A full queue
// loses messages and ticks, which Raft tolerates, and refuses proposals.
//
// # What other packages rely on
//
//  1. Metadata are immutable values. Their epoch never moves back.
//  2. A node publishes metadata before it reports their index to the other members, and before a proposal in them is
//     answered.
//  3. A proposal succeeds after every live member has applied it. A member that is dead applies the log before it
//     serves again.
//  4. A command that is proposed repeatedly keeps its ID, and is applied once.
//  5. A node's identity is on disk before another node receives a message under it, and so is everything that a Raft
//     message promises.
//
// # Parts
//
// A Cluster assembles the following parts; their type comments describe them.
//
//	loop           one event at a time, ticks, stalls
//	driver         Raft with its log (package raftlog), network and checks of messages (package raftcheck)
//	electorate     which members vote (package voters)
//	majority       whether enough of them are alive
//	progress       up to which index each member has applied the log
//	proposals      commands of this node that are in progress
//	confirmations  callers that wait until committed entries are applied
//	addresses      where members are
//	membership     asks others whether this node is a member
//	admissions     decides on join requests
//	joining        this node's own attempt to join
//	Operations     changes of the ring
package cluster
