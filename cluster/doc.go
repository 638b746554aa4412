// Package cluster is what all nodes agree on — members, tokens, keyspaces, tables — and what each
// believes alone: who is alive.
//
// The agreement is a Raft log of commands (command.go). Every node applies the same commands to the
// same state (apply.go) and publishes the result as an immutable Metadata, which readers take
// without a lock. Opinions are never written down: a node that is down stays a member.
//
// It does not replicate rows (coordinator does) and does not move data between nodes. It holds no
// goroutine of its own: node calls Run, the one loop that owns Raft, and events are posted to it.
//
//	Propose ─▶ Raft ─▶ committed on a majority ─▶ apply on every node ─▶ Metadata{Epoch, Schema, Topology}
//	                                                  └─▶ Applied to all peers: Propose returns when every
//	                                                      live node has it
//	heartbeats, streams up or down ─▶ detector ─▶ Alive
package cluster
