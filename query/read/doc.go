// Package read implements SELECT and EXPLAIN: it compiles them into plans, and executes plans with bound values.
//
// It leaves WHERE to query/restriction and the select clause to query/selection, and does not know which replicas hold
// a row. A page that is not the last ends with a paging state, which is authenticated and opaque to clients.
//
//	*cql.Select ─▶ Reader.Compile ─▶ Plan ──┐
//	                                        ├─▶ reading: WHERE ─▶ commands of a request.Scan ─▶ rows ─▶ filters ──┐
//	Params ─────────────────────────────────┘                                                                     │
//	   ┌──────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//	   ├─▶ the next row of the page
//	   ├─▶ groups and aggregates, in the order of the table
//	   ├─▶ hashed groups, of GROUP BY a part of the partition key ──┐
//	   ├─▶ sorted rows, of ORDER BY ────────────────────────────────┼─▶ Rows
//	   └─▶ nearest rows, of ANN OF ─────────────────────────────────┘
package read
