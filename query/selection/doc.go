// Package selection implements the select clause: it compiles the selectors of a SELECT (columns, elements and fields,
// functions, casts, arithmetic, literals, aggregates, JSON) and evaluates them on rows.
package selection
