// Package write implements INSERT, UPDATE, DELETE and BATCH: it compiles them into plans, and executes plans with bound
// values, also those with conditions.
//
// It leaves WHERE to query/restriction, the changes of columns to query/operation and IF to query/condition.
//
//	statement ─▶ Writer.Compile ─▶ Modification ──┐
//	                                              ├─▶ writing: USING, keys, operations ─▶ row.Mutation ─┬─▶ Executor.Write
//	Params ───────────────────────────────────────┘                                                     │
//	                                                                                                    │
//	with IF: cas ─▶ Executor.CAS ─▶ the current rows ─▶ conditions ─▶ writing ──────────────────────────┘
package write
