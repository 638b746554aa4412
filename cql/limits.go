package cql

import (
	"fmt"
	"strings"

	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

const (
	// textBytesMax bounds the size of a statement. A frame of the protocol cannot contain more
	// (native_transport_max_frame_size, 16 MiB).
	textBytesMax = 16 << 20

	// tokensMax bounds the tokens of a statement. A map literal of 65,535 entries has four tokens for each. A token
	// with its part of the tree takes 260 to 800 bytes: the largest statement takes 210 MB while it is parsed.
	tokensMax = 4*65535 + 1024

	// depthMax bounds the nesting of brackets, types (without frozen), signs and type hints. A level takes about ten
	// Go frames of the parser, and prediction visits all of them.
	depthMax = 200

	// operatorsMax bounds the operators of an expression on the way from its root to an operand. A sum of n terms is
	// a tree with n levels, so it also bounds the recursion of functions that visit the tree: about 2 KiB of stack
	// for each level, 8 MiB in total.
	operatorsMax = 4096
)

// tooLong returns the message for a text of size bytes.
func tooLong(size int) string {
	return fmt.Sprintf("Statement of %d bytes is longer than the maximum of %d", size, textBytesMax)
}

// bounded reads all tokens, and rejects a text whose parsing would need excessive memory or time. tokensMax bounds
// its own memory. It leaves all other errors to the parser.
func (p *parser) bounded() error {
	// Each variable counts one kind of nesting that is open at the current token. Their sum bounds the depth of the
	// tree.
	depth, minuses, types, hints := 0, 0, 0, 0
	previous := antlr.TokenInvalidType
	for count := 0; ; count++ {
		if count > tokensMax {
			return &SyntaxError{Msg: fmt.Sprintf("Statement has more than %d words", tokensMax)}
		}
		// Sync reads one token at a time, so a text with too many is not read to its end.
		if !p.tokens.Sync(count) {
			return nil
		}
		token := p.tokens.Get(count)
		kind := token.GetTokenType()
		switch kind {
		// The parser reports missing closing brackets.
		case antlr.TokenEOF:
			return nil
		case grammar.CqlLexerIDENT:
			// Unquoted names are ASCII, except that runeStream reads µs as us.
			if text := token.GetText(); !ascii(text) {
				return nameWithMicro(token, text)
			}
		case grammar.CqlLexerLPAREN, grammar.CqlLexerLBRACKET, grammar.CqlLexerLBRACE:
			depth++
			if kind == grammar.CqlLexerLPAREN && previous == grammar.CqlLexerRPAREN {
				// A chain of hints needs no closing brackets, so depth does not see it.
				hints++ // (type)(type)…: each hint contains the following ones
			}
		case grammar.CqlLexerRPAREN, grammar.CqlLexerRBRACKET, grammar.CqlLexerRBRACE:
			// Too many closing brackets are an error that the parser reports.
			depth = max(depth-1, 0)
		// Elsewhere, < is a comparison without a closing bracket.
		case grammar.CqlLexerLT:
			// The previous word shows whether < opens the arguments of a type.
			if opensType(previous) {
				types++
			}
		case grammar.CqlLexerGT:
			types = max(types-1, 0)
		}
		// Only signs that follow each other are nested.
		if minuses++; kind != grammar.CqlLexerMINUS {
			minuses = 0
		}
		// The parser has not run, so the error has no snippet.
		if depth+types+minuses+hints > depthMax {
			return &SyntaxError{
				Line:   token.GetLine(),
				Column: token.GetColumn(),
				Msg: fmt.Sprintf("line %d:%d nested deeper than %d levels", token.GetLine(), token.GetColumn(),
					depthMax),
			}
		}
		previous = kind
	}
}

// nameWithMicro returns the error for a name in which the lexer took µs for us.
func nameWithMicro(token antlr.Token, name string) error {
	// At the character itself, as Cassandra's lexer reports it.
	err := &SyntaxError{Line: token.GetLine(), Column: token.GetColumn() + strings.IndexRune(name, micro)}
	err.Msg = string(appendPosition(nil, err.Line, err.Column)) + "no viable alternative at character '" +
		string(micro) + "'"
	return err
}

// opensType reports whether a '<' after the token opens the arguments of a type.
func opensType(kind int) bool {
	switch kind {
	case grammar.CqlLexerK_LIST, grammar.CqlLexerK_SET, grammar.CqlLexerK_MAP,
		grammar.CqlLexerK_TUPLE, grammar.CqlLexerK_VECTOR:
		return true
	}
	return false
}
