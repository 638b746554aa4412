// Package scan divides a read of many rows into commands, and continues each where the page of the previous one ended.
//
// A Cursor reads partition keys, or a range of tokens, and the same clustering slices in each partition. It returns the
// commands of the scan in sequence, iterates over the page of each, and tracks the position: after a row, or after a
// whole partition. A scan can be continued from a position later, on any node.
//
//	for c.Next(&cmd) {
//		c.Page(…)              // the page that answers cmd
//		for c.NextPartition() {
//			for c.NextRow(&x) { … }
//		}
//		if err := c.EndPage(); err != nil { … }
//	}
//
// A Cursor performs no I/O and does not block, so that a request's goroutine (request.Scan), an event-driven state
// machine (repair, listing, counters) and a background task on one replica (paxos) use the same one.
package scan
