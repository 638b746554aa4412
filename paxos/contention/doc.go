// Package contention gives turns to coordinators that change the same partition concurrently.
//
// Turns only order coordinators; they guarantee nothing. A coordinator that gets no turn in time continues without
// one, and two arbiters with different views of which nodes are alive let two coordinators continue at once. Paxos
// does not depend on turns.
//
//	A ── turn? ──▶ arbiter ◀── turn? ── B
//	A ◀── turn ─── arbiter              (B waits, and collects further requests for the partition meanwhile)
//	A   its round
//	A ── pass ───▶ arbiter ─── turn ──▶ B
//
// A coordinator records in Contested the partitions with recent contention. Partition returns the string by which a
// partition is identified.
package contention
