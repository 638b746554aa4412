// Package indexclass contains the classes of secondary indexes as Cassandra names them, and their rules for a column
// and its options.
//
// It does not know tables and other indexes (package schema), and does not analyze terms (package types/analysis).
//
//	CREATE CUSTOM INDEX … USING 'sai' WITH OPTIONS = …   ─▶ Index.CheckSAI
//	CREATE CUSTOM INDEX … USING '…SASIIndex' …           ─▶ Index.CheckSASI
//
// Errors are *refused.Invalid, in Cassandra's words.
package indexclass
