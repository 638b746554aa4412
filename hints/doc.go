// Package hints stores the mutations that a replica missed and delivers them when the replica is alive again (hinted
// handoff).
//
//	coordinator.Write ─ no acknowledgement ─▶ Add ─▶ buffer ─ Limits.Flush ─▶ one synced record
//	node is alive ─▶ oldest records ─┬─ still a replica ─▶ VerbHint ──────────────┬─▶ records removed ─▶ next records
//	                                 └─ left, or ranges move ─▶ coordinator.Write ┘
//
// Invariants:
//
//  1. A hint counts as stored only after its record is synced to disk.
//  2. A record is removed only after its mutations are acknowledged or void. Delivering a hint twice has the same
//     effect as delivering it once, because mutations carry their timestamps.
//  3. A hint is never delivered after gc_grace_seconds of its table: it could resurrect deleted data. They count from
//     the write, also for hints that are made when a hint or a logged batch is written again.
//  4. A hint of a write that began before a truncation of its table is never delivered after the truncation. Marks
//     decide this, not clocks: see coordinator.Coordinator.HintMark.
//
// A hint that expires or that does not fit the limits is reported with OnLost; only repair brings its mutations to the
// replica.
//
// All hints of a node are one state machine: machine.step takes an event under the lock of Hints and returns effects,
// which Hints performs without the lock (docs/adr/0027). machine.check has the invariants of the state.
package hints
