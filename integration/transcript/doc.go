// Package transcript plays files of CQL statements against a server and renders every answer as text: columns with their
// types, rows in canonical form, schema changes, warnings, errors with code and message. Recorded from the reference
// Cassandra, the files say what cqld must answer. Statements whose answer cannot be equal say so with a directive
// (mask=…); nothing is left out silently.
//
// It does not decide which server it talks to, and it does not compare: that is datadriven's part in the test.
//
//	# a comment
//	cql                                one or more statements, each ended by ";" at the end of a line
//	? int:5 text:'x' null unset        values bound to the next statement, positional or name=type:value
//	SELECT k, v FROM t WHERE k = ?;
//	----
//	k int | v text
//	5 | 'x'
//
// Options of "cql": page=N (fetch all pages of N rows, each shown), mask=(column,…), raw (text values as they are), header (columns only),
// ts=N (default timestamp), now=N (now in seconds), consistency=NAME, prepared (PREPARE and EXECUTE instead of QUERY),
// v4 (protocol v4 instead of v5). "prepare" shows the metadata of a prepared statement.
package transcript
