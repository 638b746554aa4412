// Package rebalance moves token ranges between nodes. Movements follows the operations of the ring (join, leave, move,
// replace) on one node: it streams the ranges that the node gains, compares them with their sources, and reports both
// to the metadata log. Streams transfers ranges of tables from other nodes to this one, and serves other nodes'
// requests. Drops removes the data of ranges that the node lost.
//
//	ring operation ──▶ Movements ── one session for each range, table and source ──▶ Streams ── blocks ──▶ storage
//	                       │ compares by hashes, streams again what differs
//	                       └── streamed, compared, handed over ──▶ metadata log
//	range lost ──▶ Drops ── asks its replicas ── fences the range ──▶ storage.DropRange ──▶ metadata log
//
// A session continues after a crash where its last file ended. Rows may be transferred twice: they are merged by their
// timestamps.
package rebalance
