// Package selection implements the select clause: it compiles the selectors of a SELECT (columns, elements and fields,
// functions, casts, arithmetic, literals, aggregates, JSON) and evaluates them on rows.
//
// It reads no rows and knows neither groups nor pages: query/read gives it one row at a time, and for aggregates the
// accumulators of the row's group. The functions themselves are in query/function.
package selection
