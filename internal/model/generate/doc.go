// Package generate makes random tables, rows and CQL statements for comparisons: of one answer with
// itself in pages of several sizes, of a statement with literals and with bound values, and of two
// servers. The same seed gives the same statements.
//
// It does not execute statements and does not know what their answers are. Most statements are
// valid; some are not, because errors are compared too.
package generate
