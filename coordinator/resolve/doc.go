// Package resolve makes one answer of the pages with which replicas have answered a read, and says
// what each of them lacks of it.
//
// It asks nobody and writes nothing: coordinator does, with the commands and mutations it gets here.
// How two versions of a row become one is row.Reconcile's.
//
//	pages ─ Parse ─▶ versions ─ Resolver.Round ─▶ merged partitions ─ AppendPage ─▶ the answer
//	                                 │ Difference ─▶ Repairs, for each replica
//	                                 └ a limit ended a page early: Position ─ Continuation ─▶ command
package resolve
