// Package watermark determines how far a coordinator knows an ordered sequence of entries that several nodes return in
// pages: the keys of a table, or the rows that an index finds. The watermark is the position up to which, in each
// replica set, as many nodes as the consistency level requires have returned all entries that they have.
//
//	node 1  ──●──●─────●──────▶ has returned its entries up to here
//	node 2  ──●────●──●─▶
//	node 3  ─▶
//	          └─────────┴ the watermark of QUORUM: entries up to here are known; the next pages come from
//	                      nodes 2 and 3
//
// A Plan computes the watermark and the nodes to ask. A Machine is the state machine of an operation: its Step takes an
// Event, and returns Effects as values. It neither sends, locks, waits nor calls back. An Operation is the shell of a
// Machine: it locks, steps, checks the invariants, unlocks, and performs the effects.
//
//	page, answer, timer ──▶ Operation ──▶ Machine.Step ──▶ Sequence
//	                           ▲              │ effects        packages listing and search: what an entry is,
//	Ask, Fetch, Finish ◀── Host┴──────────────┘                and what several versions of one mean
//
// Invariants, which Machine.Check verifies after each step:
//
//  1. The watermark does not move back.
//  2. No replica set needs more answers than it has members.
//  3. An operation that has not ended waits for a page, an answer, or the end of a pause.
package watermark
