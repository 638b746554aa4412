// Package query implements the meaning of statements: it compiles text into a plan, and executes plans with bound
// values.
//
// It does not parse (package cql does), does not evaluate literals, bound values and function calls (package
// query/term does), leaves each clause to a package (WHERE to query/restriction, the select clause to query/selection, IF to
// query/condition, SET, VALUES and the targets of DELETE to query/operation), does not know which replicas hold a row or how many must answer (package coordinator does), and
// never accesses storage or the network. It waits for the coordinator through a Waiter from its caller, so that a
// simulation can run it one goroutine at a time.
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
