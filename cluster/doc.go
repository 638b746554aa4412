// Package cluster maintains the replicated metadata (members, tokens, keyspaces and tables) and each node's own view
// of which members are alive.
//
// The metadata are a Raft log of commands (command.go). Every node applies the same commands to the same state
// (apply.go) and publishes the result as an immutable Metadata, which readers load without a lock. Liveness is never
// stored: a node that is down stays a member.
//
// Package cluster does not replicate rows (package coordinator does) and does not move data between nodes. It owns no
// goroutine: package node calls Run, the one loop that owns Raft, and events are posted to it.
//
//	Propose ─▶ Raft ─▶ committed on a majority ─▶ apply on every node ─▶ Metadata{Epoch, Schema, Topology}
//	                                                  └─▶ Applied to all peers: Propose returns when every
//	                                                      live node has it
//	heartbeats, streams opened or ended ─▶ detector ─▶ Alive
package cluster
