// Package option checks the values of table options, as WITH of CREATE TABLE and ALTER TABLE names them, and returns
// them in the form in which they are stored and shown. Rules and messages are Cassandra's.
//
//	WITH ──▶ query/definition: which options exist, and their types
//	             └──▶ option: caching, compaction, compression, speculative_retry, read_repair, …
//	                     └──▶ canonical values ──▶ schema.Options
//
// It knows neither statements nor tables. Ranges of numbers are checked by schema.Options.Validate, which also holds
// for options that do not come from CQL. Errors are *invalid.Config.
package option
