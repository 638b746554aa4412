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
// Package cql tests the memory of the parser with all productions, and package query the effort of all layers. A new
// rule of the grammar that repeats a part needs a production: a test compares the list with CqlParser.g4 and
// CqlLexer.g4.
//
// For example, the production "selectColumns: aliases" is "SELECT %s FROM t" with the part "v AS a#" and the separator
// ", ". Its statement of three repetitions is
//
//	SELECT v AS a0, v AS a1, v AS a2 FROM t
//
// Schema creates the tables that most productions name: t with one column of each kind, c with clustering columns and a
// static column, p with a partition key of two columns, and counts with a counter. A production that needs as many
// columns or fields as it has repetitions creates them with Setup, for example the table wide. Measurements must
// exclude Setup, which grows with n as well.
package repetition
