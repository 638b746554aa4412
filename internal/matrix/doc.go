// Package matrix plays a permission matrix: it executes each statement of a list as each user of another list, and
// renders the answers as text. The answers in testdata were recorded from Cassandra with its CassandraAuthorizer. Tests
// play the same files on cqld, which must answer equally, cell by cell.
//
// It selects no server and asserts nothing: a test supplies the Target, and compares.
//
//	testdata/users.txt       the users, one on each line: the grants that a user has, joined by " + "
//	testdata/schema.txt      the objects that statements name, created by a superuser
//	testdata/rows/*.txt      the statements, with their answers
//	testdata/scenarios.txt   sequences of statements, such as a REVOKE between two executions of a prepared statement
//
// A row is a statement, followed by the statements by which a superuser undoes it after each success. "$me" is the name
// of the user who executes it.
//
//	row
//	CREATE TYPE mx.new (a int)
//	undo: DROP TYPE mx.new
//	----
//	OK
//	  superuser; CREATE ON ALL KEYSPACES
//	UNAUTHORIZED: User $me has no CREATE permission on <all tables in mx> or any of its parents
//	  the other 90
//
// Options of "row": reset (restore the schema, the roles and the grants after each success), rows (show the rows of the
// result) and unordered (do not show which of several permissions was missing).
package matrix
