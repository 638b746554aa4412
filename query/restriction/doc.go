// Package restriction implements the meaning of WHERE: it compiles the relations of a statement into a Set, refuses
// those that the statement must not have, and evaluates them with bound values into what a read needs (partition keys
// or a range of tokens, slices of clusterings, and filters for the rest). It chooses the index by which rows are found,
// and names the ways to find them for EXPLAIN and metrics (AccessPaths).
//
// It reads no rows: query/read and query/write do.
//
//	relations ─▶ Compile ─▶ Set ──┬─▶ Keys, Tokens ─▶ partitions
//	                              ├─▶ Slices ───────▶ rows of a partition
//	Scope (bound values) ─────────┼─▶ Choice ───────▶ an index, and its filters
//	                              └─▶ Filters ──────▶ conditions on the rows found
package restriction
