// Package option validates the values of table options in WITH clauses of CREATE TABLE and ALTER TABLE, and converts
// them to the form in which they are stored and shown. Rules and messages are Cassandra's.
//
//	WITH ──▶ query/definition: which options exist, and their types
//	             └──▶ option: caching, compaction, compression, speculative_retry, read_repair, …
//	                     └──▶ canonical values ──▶ schema.Options
//
// It knows neither statements nor tables. schema.Options.Validate checks ranges of numbers, also for options that do
// not come from CQL. Errors are *invalid.Config.
package option
