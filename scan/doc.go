// Package scan divides a read of many rows into commands, and continues each where the page of the previous one ended.
//
// A Cursor is given partition keys, or a range of tokens, and the clustering slices to read in each partition. It
// returns the commands of the scan one after the other, iterates over the page of each, and knows its position: after a
// row, or after a whole partition. A scan can continue at a position later, on any node.
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
