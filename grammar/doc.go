// Package grammar contains the grammar of CQL, CqlLexer.g4 and CqlParser.g4, and the lexer and parser that ANTLR
// generates from it.
//
// The generated code is not edited by hand, and only package cql uses it. After a change of a .g4 file, run
//
//	go generate ./grammar
//
// which needs Java. A test fails if the generated code is out of date.
package grammar

//go:generate ../tools/antlr.sh
