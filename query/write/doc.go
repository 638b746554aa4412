// Package write implements INSERT, UPDATE, DELETE and BATCH: it compiles them into plans, and executes plans with
// bound values, also conditional ones.
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
//
// Which of several errors a client sees is part of the behavior: checks have Cassandra's order and messages. For a
// check that seems misplaced, there usually is a test with Cassandra's response.
//
// # Ownership
//
// Plans (Modification, Batch) are immutable and shared by all executions of a prepared statement. A writing belongs
// to one execution at a time and is pooled. It builds a mutation in a buffer that the next statement overwrites, so
// receivers must copy it. Memory for large changes is reserved from the request before it is allocated (memory.go).
//
// # Times
//
// Timestamps of cells are microseconds since 1970. TTLs and times of deletion are seconds. The clock is read once for
// each request (execution.Moment), so that all its changes expire together.
package write
