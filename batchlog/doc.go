// Package batchlog applies logged batches: eventually all mutations of a batch are applied, or none, whichever node
// crashes.
//
//	coordinator            two other nodes (holders)
//	─ VerbBatchStore ──▶   the batch is synced to disk
//	  coordinator.Write    when a batch is not removed in time, its holder writes it
//	─ VerbBatchRemove ─▶   once every replica has its share, or a stored hint (Log.secured)
//
// Invariants:
//
//  1. No replica gets a part of a batch before as many nodes as must have stored the batch on disk: two, or all live
//     ones if fewer are alive.
//  2. A holder removes a batch only when the coordinator, or its own replay, has secured it.
//  3. A node that leaves the ring hands over every batch that it stores, and accepts none from then on.
//  4. A batch is applied with the timestamps that it had, and never after gc_grace_seconds of a table: then none of its
//     mutations is applied, and their partitions are reported with OnLost. Hints of a replay expire as if they had been
//     made with the batch.
//  5. A mutation that was acknowledged before a truncation of its table began is never applied after the truncation. A
//     holder marks each batch when it stores it (coordinator.Coordinator.StoredMark); clocks decide nothing.
package batchlog
