// Package repair makes the replicas of a range equal: it compares hashes of what they hold, and reads
// what differs at ALL, whose read repair is the only thing that writes. A Repairer does it when it is
// asked, an Auto of its own accord.
//
// It neither hashes rows nor keeps what is repaired: replicas do, behind Peers. As in coordinator,
// nothing waits: a job is a state machine whose events are answers and timers.
//
//	Auto ── a table's ranges in turn, what is dirty first ──▶ job
//	job  ── range by range, in token order ──▶ unit: one range with one replica set
//	unit ── what Paxos has not decided ──▶ a round in which all replicas vote; last, they forget its state (purge.go)
//	     ── hash ──▶ every replica, step by step      ── differing leaves ──▶ read at ALL, page by page
//	     ── hash the leaf again, to see               ── Notice ──▶ every replica
package repair
