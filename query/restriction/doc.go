// Package restriction implements the meaning of WHERE: it compiles the relations of a statement into a Set, rejects
// invalid relations, and evaluates the Set with bound values into partition keys or a token range, slices of
// clusterings, and filters for the rest. It chooses the index that finds rows, and names the access paths for EXPLAIN
// and metrics (AccessPaths).
//
// It reads no rows: query/read and query/write do.
//
//	relations ─▶ Compile ─▶ Set ──┬─▶ Keys, Tokens ─▶ partitions
//	                              ├─▶ Slices ───────▶ rows of a partition
//	Scope (bound values) ─────────┼─▶ Choice ───────▶ an index, and its filters
//	                              └─▶ Filters ──────▶ conditions on the rows found
//
// # Lists of restrictions
//
// A relation becomes a restriction, or is merged into the restriction of the same columns. The kinds of the column
// and of the relation determine its list in the Set:
//
//	partition    = IN                           PartitionKeys, unless a column is missing: then filters
//	token        = and bounds of token(…)       Tokens
//	clustering   = IN, bounds, CONTAINS         Slices up to the first gap or bound; the others are filters
//	other        static and regular columns     filters, possibly found by an index
//	extra        NOT IN, !=, LIKE, OR, …        filters; in a DELETE, NOT IN and != are slices
//
// # Two questions about indexes
//
// Whether a statement is valid depends on the indexes that Cassandra would use: usesIndex, expected and
// needsFiltering answer only that. Afterwards, chooseIndexes and, for each execution, ChooseIndex determine how rows
// are found. Rows from an index are always filtered by WHERE, because an entry may be older than its row, and because
// an index may find more rows than the relation selects.
//
// # Order of errors
//
// Clients and tests compare errors with Cassandra's. Compile therefore keeps Cassandra's order of checks, and callers
// add their own between them (Options.AfterRelations, Options.BeforeOthers).
//
// # Bounds
//
// The product of IN lists, the relations of a statement, the columns of a tuple and the branches of a union are
// bounded (limits.go), and memory for keys and slices is reserved before they are built: a statement of some hundred
// bytes could otherwise name millions of rows.
package restriction
