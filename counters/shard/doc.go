// Package shard converts additions to counters to the stored form.
//
// A counter is stored as shards: cells of its column whose path is the id of the node that leads the shard (8 bytes),
// and whose value is the sum of all additions through that node.
//
//  1. Only that node writes the shard, each time with a later timestamp, so the newest version is the correct one,
//     whichever way it arrives: hints, read repair and streaming need no special treatment of counters.
//  2. The counter's value is the sum of its live shards.
//  3. A node id is never assigned twice: a node that lost its disk begins a new shard, and the old one remains
//     unchanged.
//  4. A leader counts an update once, even if it receives it several times: Windows record the IDs of updates.
//
// The package neither reads nor writes, nor does it choose leaders: package counters does.
//
//	updates of one partition ─ Add ─▶ Change ─ Merge, Command ─▶ read of the shards to be changed
//	                                  page ─ Take, Result ─▶ mutation of the new sums
package shard
