// Package resolve merges the pages with which replicas have answered a read, and determines the differences of each
// replica from the result.
//
// It sends no requests: package coordinator executes the commands and mutations that it returns. row.Reconcile
// determines which of two versions of a row wins.
//
//	pages ─ Parse ─▶ versions ─ Resolver.Round ─▶ merged partitions ─ AppendPage ─▶ the answer
//	                                 │ Difference ─▶ Repairs, for each replica
//	                                 └ a limit ended a page early: Position ─ Continuation ─▶ command
package resolve
