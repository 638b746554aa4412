// Package restriction implements the meaning of WHERE: it compiles the relations of a statement into a Set, refuses
// those that the statement must not have, and evaluates them with bound values into what a read needs (partition keys
// or a range of tokens, slices of clusterings, and filters for the rest).
package restriction
