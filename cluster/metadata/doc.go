// Package metadata is the replicated state of a cluster: members, tokens, keyspaces, tables, roles, and the operations
// that change the ring.
//
// Metadata are immutable. Apply returns the metadata after one Command of the log; it depends on its arguments only, so
// all nodes that apply the same log have the same metadata. This package does not depend on liveness, time or the
// network: the proposer puts everything that a command needs into the command.
//
//	Command ─▶ Apply(Metadata) ─▶ Metadata        or Refused, which every node computes, too
//	Metadata ─▶ Encode ─▶ snapshot of the log ─▶ Decode, Check ─▶ Metadata
package metadata
