// Package indexclass contains the classes of secondary indexes as Cassandra names them, and their rules for a column
// and its options.
//
// It does not depend on tables or other indexes (package schema does), and does not analyze terms (package
// types/analysis).
//
//	CREATE CUSTOM INDEX … USING 'sai' WITH OPTIONS = …   ─▶ Index.CheckSAI
//	CREATE CUSTOM INDEX … USING '…SASIIndex' …           ─▶ Index.CheckSASI
//
// Errors are *refused.Invalid, in Cassandra's words.
package indexclass
