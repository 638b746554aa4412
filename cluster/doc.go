// Package cluster maintains the replicated metadata (members, tokens, keyspaces and tables) and each node's own view
// of which members are alive.
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
// A Cluster assembles the following parts; each names in its type comment what it is responsible for.
//
//	loop           one event at a time, ticks, stalls
//	driver         Raft with its log (package raftlog), network and checks of messages (package raftcheck)
//	electorate     which members vote (package voters)
//	majority       whether enough of them are alive
//	progress       up to which index each member has applied the log
//	proposals      commands of this node that are in progress
//	confirmations  callers that wait for what a majority has committed
//	addresses      where members are
//	membership     asks others whether this node is a member
//	admissions     decides about nodes that join
//	joining        this node's own attempt to join
//	Operations     changes of the ring
package cluster
