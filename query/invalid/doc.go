// Package invalid holds the errors of statements and requests that cannot be executed as they are: one type for each
// error code of the native protocol that packages under query return, and their constructors.
//
// It is at the bottom of query, so that every package below query returns the same types, and protocol servers need to
// know no other. It converts nothing: package query maps the errors of schema and auth, which are below it, to these.
// Errors of replicas (Unavailable, timeouts, failures) are package coordinator's.
//
//	function, term, restriction, selection, … ──▶ Errorf, Configf, Unauthorizedf, NotSupported
//	                                                             │
//	schema, auth ──▶ query (definitionError) ────────────────────┴──▶ server: ERROR with the code of the type
package invalid
