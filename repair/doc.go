// Package repair makes the replicas of token ranges equal. A Repairer compares hashes of the data that replicas hold,
// and reads ranges that differ at consistency ALL; read repair performs all writes. Repairs run on request, and in the
// background by Auto. A Service is the replica's half: it hashes this node's data for repairs of any node. A History
// records the ranges that are repaired. A Scope restricts a repair to some replicas, for example while another data
// center is lost.
//
// No function blocks. A job is a state machine whose events are replies and timers: its steps are pure, and Run is its
// shell. Auto and Tables start jobs; they are shells of machines, too, and the ends of jobs are their events.
//
//	Auto ── the ranges of a table, those with lost hints first ──▶ job
//	job  ── range by range, in token order ──▶ unit: one range with one replica set
//	unit ── undecided Paxos proposals ──▶ a round in which all replicas vote; at the end, replicas remove old
//	                                         state (purge.go)
//	     ── hash request ──▶ Service of every replica     ── differing leaves ──▶ read at ALL, page by page
//	     ── hash the leaf again to verify                 ── Notice ──▶ Service of every replica ──▶ History
//
// Package paxos handles the messages of purges; package storage hashes rows.
package repair
