// Package shard turns what is to be added to counters into what is stored.
//
// A counter is stored as shards: cells of its column whose path is the id of the node that leads the
// shard (8 bytes), and whose value is the sum of all that was added through that node. Only that
// node writes it, each time with a later stamp, so the newest is the right one, wherever it comes
// from: hints, read repair and streaming need to know nothing of counters. The counter's value is the
// sum of its live shards. A node id is never given twice: a node that lost its disk begins a new
// shard, and the old one stays as it is.
//
// A leader counts an update once, however often it is asked to: Windows remember by which name.
//
// The package neither reads nor writes, nor does it know who leads: coordinator's leader does.
//
//	updates of one partition ─ Add ─▶ Change ─ Merge, Command ─▶ read of the shards that grow
//	                                  page ─ Take, Result ─▶ mutation of the new sums
package shard
