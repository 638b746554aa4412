// Package grammar is the grammar of CQL, CqlLexer.g4 and CqlParser.g4, and the
// lexer and parser that ANTLR makes of it.
//
// Nothing of the generated code is written by hand, and only package cql uses
// it. After a change of a .g4 file run
//
//	go generate ./grammar
//
// which needs Java; a test tells when that was forgotten.
package grammar

//go:generate ../tools/antlr.sh
