// Package transcript executes files of CQL statements on a server and renders every answer as text: columns with their
// types, rows in canonical form, schema changes, warnings, errors with code and message. The files are recorded from
// the reference Cassandra and contain the answers that cqld must return. A directive (mask=…) marks statements whose
// answer cannot be equal; every other difference is a failure.
//
// It does not select the server, and it does not compare: datadriven does that in the test.
//
//	# a comment
//	cql                                one or more statements, each ended by ";" at the end of a line
//	? int:5 text:'x' null unset        values bound to the next statement, positional or name=type:value
//	SELECT k, v FROM t WHERE k = ?;
//	----
//	k int | v text
//	5 | 'x'
//
// Options of "cql": page=N (fetch all pages of N rows, each shown), states (with page: show an empty last page, too),
// mask=(column,…), raw (text values as they are), header (columns only), ts=N (default timestamp), now=N (now in
// seconds), consistency=NAME, serial=NAME (serial consistency), keyspace=NAME (the request's keyspace), trace (show the
// session of the trace), prepared (PREPARE and EXECUTE instead of QUERY), v4 (protocol v4 instead of v5). "prepare"
// shows the metadata of a prepared statement. "batch" sends its statements as one BATCH message.
//
// Options for frames that drivers do not send: consistency=N and serial=N (any number), state=0x… (paging state), skip
// (no columns in the answer), unknown (an id that was not prepared), kind=N and named (kind of a batch, flag for
// names), and tracing, which only shows whether the answer has the id of a trace.
//
// The text after "----" is written by "go test -rewrite" against Cassandra, never by hand.
//
//	file ── datadriven ──▶ Player.Play ── cqlclient ──▶ server
//	  ▲                          │
//	  └── equal, or a failure ◀──┘ rendered answers
package transcript
