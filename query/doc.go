// Package query implements the meaning of statements: it compiles text into a plan, and executes plans with bound
// values.
//
// It does not parse (package cql does), does not evaluate literals, bound values and function calls (package
// query/term does), leaves statements that read rows to query/read and those that write rows to query/write, does not
// know which replicas hold a row or how many must answer (package coordinator does), and never accesses storage or
// the network. Its caller provides the Waiter with which it waits for the coordinator, so a simulation can run one
// goroutine at a time.
//
//	text ── cql.Parse ──▶ Statement ── prepare(schema) ──▶ plan ──┐ LRU by text, by id
//	                                                              │
//	                   Params (values, consistency, paging) ──────┤
//	                                                              ▼
//	   INSERT UPDATE DELETE BATCH ─▶ query/write ─▶ row.Mutation    ─▶ Executor.Write
//	   SELECT EXPLAIN             ─▶ query/read  ─▶ row.ReadCommand ─▶ Executor.Read ─▶ Result
//	   SELECT from a virtual table ─▶ query/read ────────────────────▶ VirtualSource ─▶ Result
//	   CREATE ALTER DROP          ─▶ query/definition ─▶ schema.Change ─▶ Changer
package query
