// Package write implements INSERT, UPDATE, DELETE and BATCH: it compiles them into plans, and executes plans with bound
// values, also those with conditions.
//
// It leaves WHERE to query/restriction, and sends nothing: request.Executor does. An operation is the effect of one
// element of SET, VALUES or DELETE on a row, and a condition is one of IF. A changeSet combines the mutations of a
// request by partition, and bounds their size.
//
//	statement ─▶ Writer.Compile ─▶ Modification ─┐
//	                                             ├─▶ writing: USING, keys, operations ─▶ row.Mutation ─┐
//	Params ──────────────────────────────────────┘                                                     │
//	                                                                                  Executor.Write ◀─┤
//	with IF: cas ─▶ Executor.CAS ─▶ the current rows ─▶ conditions ─▶ writing ─────────────────────────┘
package write
