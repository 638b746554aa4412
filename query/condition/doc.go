// Package condition implements the conditions of IF: it compiles them, and evaluates them on rows with bound values.
package condition
