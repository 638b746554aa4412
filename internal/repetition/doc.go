// Package repetition generates CQL statements in which one production of the grammar is repeated any number of times.
// Tests use them to assert that time and memory of each layer grow at most linearly with the size of a statement.
//
// It does not execute statements, and does not require that they are valid. A statement that is refused is of use, too:
// the refusal must not cost more than in proportion to its size either.
//
//	Production ── Setup(n) ──▶ definitions that the statement needs: tables and types with n columns or fields
//	           └─ Text(n) ──▶ one statement with n repetitions ──▶ parser, formatter, redaction, execution
//
// A production repeats its part in one of two ways. The function of repeats it in length, with a separator: columns,
// terms, relations, options. In a part, # stands for the number of the repetition, so that names and keys differ;
// without it, all repetitions are equal. The function around nests the part in depth: parentheses, calls, types. The
// parser bounds the depth of statements, so deep ones are refused.
//
// Package cql tests the memory of the parser with all productions, and package query the effort of all layers.
package repetition
