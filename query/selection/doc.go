// Package selection implements the select clause: it compiles the selectors of a SELECT (columns, elements and
// fields, functions, casts, arithmetic, literals, aggregates, JSON) and evaluates them on rows.
//
// It reads no rows and knows neither groups nor pages: query/read passes one row at a time and, for aggregates, the
// accumulators of the row's group. The functions themselves are in query/function.
//
//	cql.Selector ── prepare ─▶ names, functions ── compile(type) ─▶ Selector ── Value(Context) ─▶ value
//	                                                   │
//	                                                   └─▶ Selection.Aggregates, one for each call of an aggregate
//
// # Compilation
//
// Cassandra reports unknown names in any selector before errors of types in the first one, so there are two passes
// over the select clause: prepare resolves columns and functions, and compile determines types. A type flows in both
// directions. Columns, calls and hints have a type. Literals and bind markers get the type that their context
// expects, and are errors if there is none.
//
// A function is resolved from its arguments before these are compiled. selectorArg reports the types and matches of
// arguments. For that, a trial compiles a selector and discards the markers and aggregates that it adds. Resolved
// calls and hints are cached by their nodes in the syntax tree; otherwise each level of nesting would double the
// work.
//
// # Aggregates
//
// An aggregate has its arguments in Selection.Aggregates and its place in the selector tree as an aggregateSelector.
// The reader adds each row of a group to an accumulator, and evaluates the selectors once, on the first row of the
// group.
//
// # Masks
//
// Column.Value applies the mask of a column for the client of the Context. Everything that is computed from columns
// is therefore computed from what the client sees. GROUP BY uses the real values of columns (query/read).
package selection
