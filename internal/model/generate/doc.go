// Package generate generates random tables, rows and CQL statements for comparisons: of one result with the same result
// in pages of several sizes, of a statement with literals and with bound values, and of two servers. The same seed
// generates the same statements.
//
//	New ── Definitions ── Row, Change, ConditionalBatch … ── Select
//	                         │                                 │
//	                         └── Statement: text and values ───┴── Literal: the same with literals
//
// Objects adds indexes, views, functions or vectors to the table of a Generator.
//
// It does not execute statements and does not know their results. Most statements are valid; some are not, because
// errors are compared too.
package generate
