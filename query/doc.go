// Package query is what a statement means: it prepares text into a plan, and executes plans with
// bound values.
//
// It does not parse (cql does), does not know what literals, bound values and calls of functions mean
// (query/term does), which replicas hold a row or how many must answer (coordinator does), and never
// sees storage or the network. It waits for the coordinator through a Waiter that is handed in, so that
// a simulation can run it one goroutine at a time.
//
//	text ── cql.Parse ──▶ Statement ── prepare(schema) ──▶ plan ──┐ LRU by text, by id
//	                                                              │
//	                   Params (values, consistency, paging) ──────┤
//	                                                              ▼
//	   INSERT UPDATE DELETE BATCH ─▶ row.Mutation    ─▶ Store.Write
//	   SELECT ─▶ restrictions ─▶ row.ReadCommand     ─▶ Store.Read ─▶ page ─▶ filter, group, order
//	                                                              │             ─▶ selection ─▶ Result
//	   SELECT from a virtual table ────────────────────▶ VirtualSource ──▶ (the same way)
//	   CREATE ALTER DROP ─▶ schema.Change              ─▶ Changer
package query
