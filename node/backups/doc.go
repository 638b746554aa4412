// Package backups makes backups of a cluster and restores them. Each node stores its own share of a backup, and each
// node restores the rows of its own ranges; the node that was asked leads.
//
//	leader ─ Begin checkpoint ─▶ all nodes   a checkpoint of the storage engine, at about the same time
//	       ─ Begin upload ─────▶ all nodes   new files ─▶ objects of the store; the list of files
//	       ─ Complete ─────────▶ store       the manifest, which makes the backup valid
//
//	leader ─ schema.Change ────▶ metadata    the tables, with new identifiers; roles
//	       ─ Begin restore ────▶ all nodes   rows of own ranges from the files of all replicas ─▶ Ingestion
//
// A restoration to a moment uses the newest backup before it, and the archived logs since (package node/archive): each
// former node's state is its files with the commits of its log up to the moment. Schema and roles are of the newest
// state of the metadata that a node had applied by then.
//
//	leader ─ Begin verify-moment ──▶ all nodes   objects and segments are compared, foreign rows refused
//	       ─ Begin restore-moment ─▶ all nodes   files + segments ─▶ state in an overlay ─▶ rows, as above
//
// What is restored is the union of the states of all former replicas at the moment: each write that was acknowledged
// before it is in one of them at least, at any consistency level, and no write that was accepted after it is in any.
// Deletions are rows of the union like others, and hide what they hid.
//
// A node works on one task at a time, and ends it when its leader has not asked for a while. Every task can be begun
// again: objects that are stored are not stored again, and rows that are ingested twice change nothing.
//
// The package blocks in its goroutines, as operators' jobs do. Every wait passes through Options.Await, every goroutine
// through Options.Run and every timer through Options.Clock, so that the simulation can run it in one thread of control
// (package simulation/backups). Code that waits in another way, for a channel, a lock that is held while a step works,
// or a timer of the runtime, would stop a simulation.
//
// It does not know URLs, objects and manifests (package backup), nor jobs (node/admin).
package backups
