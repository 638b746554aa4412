// Package operation implements the changes of one column: it compiles the elements of SET, VALUES and DELETE into
// operations, and applies them to a row with bound values.
package operation
