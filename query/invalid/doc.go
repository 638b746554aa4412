// Package invalid defines the errors of invalid statements and requests: one type, with its constructor, for each
// error code of the native protocol that packages under query return.
//
// It is at the bottom of query, so that every package below query returns the same types, and protocol servers need
// only these. Package query converts errors of schema and auth to them. Errors of replicas (Unavailable, timeouts,
// failures) are package coordinator's.
//
//	function, term, restriction, selection, … ──▶ Errorf, Configf, Unauthorizedf, NotSupported
//	                                                             │
//	schema, auth ──▶ query (definitionError) ────────────────────┴──▶ server: ERROR with the code of the type
package invalid
