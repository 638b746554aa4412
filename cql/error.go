package cql

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

// Errors have the text of Cassandra's parser, which ANTLR 3 generates. It detects errors at other tokens than the
// ANTLR 4 parser of this package, so an error is built in three steps:
//
//	failure         where this parser stopped, and what it expected (halt.go)
//	lookBack        where Cassandra's parser would have stopped instead
//	failureError    the message, with the text around the token in brackets
//
// The messages are part of the compatibility with Cassandra.

// SyntaxError is the error for a text that is not a CQL statement. Drivers show Msg to their users, so its text is
// Cassandra's.
type SyntaxError struct {
	// The line in the text, from 1; 0 if the error concerns the whole text or its end.
	Line int
	// The column in the line, in characters from 0; -1 at the end of the text.
	Column int
	Msg    string
}

// Error returns the message with its position, as Cassandra formats it.
func (e *SyntaxError) Error() string { return e.Msg }

// syntaxError returns the error for the failure with Cassandra's text. As in Cassandra, errors of the lexer come
// first, then misplaced markers, then errors of the parser.
func (p *parser) syntaxError(text string) *SyntaxError {
	f := &p.halt.failure
	// The lexer returns special tokens for invalid text, at which the parser stops. Report the first of them.
	for i := 0; i <= f.offending.GetTokenIndex(); i++ {
		if err := brokenLexeme(text, p.tokens.Get(i)); err != nil {
			return err
		}
	}
	// Cassandra's grammar accepts a marker in these places, and rejects it with a special message.
	if f.offending.GetTokenType() == grammar.CqlLexerQMARK {
		rule := f.rule
		if rule == grammar.CqlParserRULE_selectStatement && f.decision > 0 &&
			p.tokens.Get(f.decision-1).GetTokenType() == grammar.CqlLexerK_FROM {
			rule = grammar.CqlParserRULE_tableName // the parser has not chosen between a table and its fragments
		}
		if thing := unbindable(rule, p.parser.GetParserRuleContext()); thing != "" {
			return &SyntaxError{Msg: "Bind variables cannot be used for " + thing}
		}
	}
	p.lookBack(f)
	return p.failureError(f)
}

// lookBack adapts the failure to Cassandra's parser, which may detect it earlier: it looks ahead from the previous
// token, and then reports that no alternative matches instead of the missing token. f is changed in place. Nothing
// changes if both parsers stop at the same token.
func (p *parser) lookBack(f *failure) {
	// There is no previous token, or the parser already looked ahead from an earlier one.
	if f.decision == 0 || f.decision != f.offending.GetTokenIndex() {
		return
	}
	previous := p.tokens.Get(f.decision - 1)
	switch f.rule {
	// These rules choose among alternatives by two tokens.
	case grammar.CqlParserRULE_create, grammar.CqlParserRULE_alter, grammar.CqlParserRULE_drop,
		grammar.CqlParserRULE_list, grammar.CqlParserRULE_grant, grammar.CqlParserRULE_revoke,
		grammar.CqlParserRULE_alterTable, grammar.CqlParserRULE_relation,
		grammar.CqlParserRULE_insert:
		// With a single expected token both parsers report that token.
		if f.expected == antlr.TokenInvalidType {
			f.decision--
		}
	// A name without parentheses is not a function call, but Cassandra's parser reports no viable alternative.
	case grammar.CqlParserRULE_simpleTerm:
		if f.expected == grammar.CqlLexerLPAREN && previous.GetTokenType() != grammar.CqlLexerK_CAST {
			f.decision, f.expected = f.decision-1, antlr.TokenInvalidType
		}
	case grammar.CqlParserRULE_root, grammar.CqlParserRULE_selectStatement:
		ended := endedRules(p.parser.GetParserRuleContext())
		switch {
		case ended[grammar.CqlParserRULE_tableName], ended[grammar.CqlParserRULE_columnName],
			ended[grammar.CqlParserRULE_selector] && previous.GetTokenType() == grammar.CqlLexerIDENT:
			f.decision, f.expected = f.decision-1, antlr.TokenInvalidType
		case ended[grammar.CqlParserRULE_whereClause] && isWord(f.offending):
			f.expected = antlr.TokenInvalidType
		}
	}
}

// endedRules returns the rules that ended where the parser stopped: those on the right edge of the tree.
func endedRules(tree antlr.Tree) map[int]bool {
	ended := map[int]bool{}
	// Down the right edge: the last child of the last child.
	for tree.GetChildCount() > 0 {
		tree = tree.GetChild(tree.GetChildCount() - 1)
		if rule, ok := tree.(antlr.RuleContext); ok {
			ended[rule.GetRuleIndex()] = true
		}
	}
	return ended
}

// isWord reports whether the token is a keyword or a name without quotes.
func isWord(token antlr.Token) bool {
	// Tokens are never empty, except the end of the text, whose text is "<EOF>".
	c := token.GetText()[0]
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// failureError returns the error for a failure in which all tokens are valid. It does not redact secrets.
func (p *parser) failureError(f *failure) *SyntaxError {
	err := &SyntaxError{Line: f.offending.GetLine(), Column: f.offending.GetColumn()}
	atEnd := f.offending.GetTokenType() == antlr.TokenEOF
	// Cassandra reports the end of the text as line 0, column -1.
	if atEnd {
		err.Line, err.Column = 0, -1
	}
	msg := appendPosition(nil, err.Line, err.Column)
	// Messages show the content of literals, which may be secrets.
	word := tokenText(f.offending)
	if f.expected != antlr.TokenInvalidType {
		msg = append(msg, "mismatched input '"+word+"' expecting "+tokenName(f.expected)...)
	} else {
		msg = append(msg, "no viable alternative at input '"+word+"'"...)
	}
	// At the end of the text there is nothing to show.
	if !atEnd {
		msg = p.appendSnippet(msg, f)
	}
	err.Msg = string(msg)
	return err
}

// appendPosition appends "line l:c ", as ANTLR formats positions.
func appendPosition(dst []byte, line, column int) []byte {
	dst = append(dst, "line "...)
	dst = strconv.AppendInt(dst, int64(line), 10)
	dst = append(dst, ':')
	dst = strconv.AppendInt(dst, int64(column), 10)
	return append(dst, ' ')
}

// unbindable returns the name that Cassandra reports for a misplaced marker.
func unbindable(rule int, ctx antlr.ParserRuleContext) string {
	// A name is a separate rule; the enclosing rule determines what it names.
	if rule == grammar.CqlParserRULE_ident || rule == grammar.CqlParserRULE_keyword {
		if parent, ok := ctx.GetParent().(antlr.ParserRuleContext); ok {
			ctx, rule = parent, parent.GetRuleIndex()
		}
	}
	switch rule {
	case grammar.CqlParserRULE_use, grammar.CqlParserRULE_createKeyspace,
		grammar.CqlParserRULE_alterKeyspace, grammar.CqlParserRULE_dropKeyspace:
		return "keyspace names"
	case grammar.CqlParserRULE_tableName:
		if _, ok := ctx.GetParent().(*grammar.DropIndexContext); ok {
			return "index names"
		}
		return "table names"
	case grammar.CqlParserRULE_roleName:
		return "role names"
	case grammar.CqlParserRULE_indexExpression:
		return "index names"
	}
	return ""
}

// brokenLexeme returns the error for an invalid token. It returns nil for a valid token.
func brokenLexeme(text string, token antlr.Token) *SyntaxError {
	expecting := ""
	switch token.GetTokenType() {
	case grammar.CqlLexerUNTERMINATED_STRING:
		expecting = "'''"
	case grammar.CqlLexerUNTERMINATED_DOLLAR:
		expecting = "'$'"
	case grammar.CqlLexerUNTERMINATED_NAME:
		expecting = `'"'`
	case grammar.CqlLexerUNTERMINATED_COMMENT:
		expecting = "'*'"
	case grammar.CqlLexerUNTERMINATED_LINE:
		expecting = "set null"
	case grammar.CqlLexerUNEXPECTED_CHARACTER:
		return unexpectedCharacter(token)
	default:
		return nil
	}
	err := &SyntaxError{}
	// The token is unterminated; Cassandra's lexer reports the end of the text.
	err.Line, err.Column = endOf(text)
	msg := appendPosition(nil, err.Line, err.Column)
	err.Msg = string(append(msg, "mismatched character '<EOF>' expecting "+expecting...))
	return err
}

// unexpectedCharacter returns the error for a character that begins no token. A dollar begins a string whose second
// dollar is missing.
func unexpectedCharacter(token antlr.Token) *SyntaxError {
	err := &SyntaxError{Line: token.GetLine(), Column: token.GetColumn()}
	if token.GetText() != "$" {
		msg := appendPosition(nil, err.Line, err.Column)
		err.Msg = string(append(msg, "no viable alternative at character '"+token.GetText()+"'"...))
		return err
	}
	// The message concerns the character after the dollar, which should be the second one.
	err.Column++
	// The stream counts characters as the token does, and has no text after its end.
	next := token.GetInputStream().GetText(token.GetStop()+1, token.GetStop()+1)
	if next == "" {
		next = "<EOF>"
	}
	msg := appendPosition(nil, err.Line, err.Column)
	err.Msg = string(append(msg, "mismatched character '"+next+"' expecting '$'"...))
	return err
}

// endOf returns the position after the text.
func endOf(text string) (line, column int) {
	last := text[strings.LastIndexByte(text, '\n')+1:]
	return strings.Count(text, "\n") + 1, len([]rune(last))
}

// tokenText returns a token as messages show it: strings and names without their quotes. A token with more than
// snippetCharsMax characters is shown as dots, because the first part of a secret could not be redacted.
func tokenText(token antlr.Token) string {
	if token.GetStop()-token.GetStart() >= snippetCharsMax {
		return "..."
	}
	return contentOf(token)
}

// contentOf returns a token without its quotes.
func contentOf(token antlr.Token) string {
	switch token.GetTokenType() {
	case grammar.CqlLexerSTRING_LITERAL:
		return stringText(token.GetText())
	case grammar.CqlLexerQUOTED_NAME:
		return unquote(token.GetText(), `"`)
	}
	return token.GetText()
}

// tokenName returns the name of a kind of token in messages. kind is a type of the lexer or EOF.
func tokenName(kind int) string {
	if kind == antlr.TokenEOF {
		return "EOF"
	}
	// Static data of the generated lexer; it is initialized before any token exists.
	names := &grammar.CqlLexerLexerStaticData
	// Keywords have their symbolic name in messages, as in Cassandra, and punctuation its literal.
	if kind < len(names.LiteralNames) && names.LiteralNames[kind] != "" &&
		!strings.HasPrefix(names.SymbolicNames[kind], "K_") {
		return names.LiteralNames[kind]
	}
	return names.SymbolicNames[kind]
}

const (
	// snippetTokens is the number of tokens before the error in its message. A run of white space counts as one.
	snippetTokens = 10
	// snippetCharsMax bounds the characters of each part of a snippet. Cassandra's messages have no bound.
	snippetCharsMax = 4096
)

// appendSnippet appends the text around the failure: ten tokens before the token at which the parser began to look
// ahead, that token in brackets, and the text up to the token that does not match. It omits parts that are too long.
// Parts are cut only between tokens, so that redactMessage finds secrets.
func (p *parser) appendSnippet(dst []byte, f *failure) []byte {
	// Positions of tokens count characters, not bytes.
	chars := p.lexer.GetInputStream()
	mark := p.tokens.Get(f.decision)
	from, at := snippetStart(p.tokens, f.decision), mark.GetStart()
	// Cassandra uses the length of a literal without its quotes, so the snippet lacks its last characters.
	to := min(f.offending.GetStart()+utf8.RuneCountInString(contentOf(f.offending)), chars.Size())
	markEnd := min(at+utf8.RuneCountInString(contentOf(mark)), chars.Size())
	dst = append(dst, " ("...)
	dst = appendIf(dst, from > 0, "...")
	dst = appendLine(dst, chars.GetText(from, at-1))
	dst = append(dst, '[')
	if markEnd-at > snippetCharsMax {
		dst = append(dst, "..."...)
	} else {
		dst = appendLine(dst, chars.GetText(at, markEnd-1))
	}
	dst = append(dst, ']')
	if to-markEnd > snippetCharsMax {
		to = markEnd
	}
	if markEnd < to {
		dst = appendLine(dst, chars.GetText(markEnd, to-1))
	}
	dst = appendIf(dst, to < chars.Size(), "...")
	return append(dst, ')')
}

// snippetStart returns the first character of the tenth token before index, or of a later token if there are more than
// snippetCharsMax characters from there.
func snippetStart(tokens *antlr.CommonTokenStream, index int) int {
	mark := tokens.Get(index).GetStart()
	start := mark
	for left := snippetTokens; left > 0 && index > 0; left-- {
		previous := tokens.Get(index - 1)
		next := previous.GetStart()
		if previous.GetStop()+1 < start { // white space between tokens
			next = previous.GetStop() + 1
		} else {
			// The lexer skips comments as well, so they count as white space.
			index--
		}
		if mark-next > snippetCharsMax {
			return start
		}
		start = next
	}
	// White space and comments before the first token are shown with it, or not at all.
	if index == 0 && start == tokens.Get(0).GetStart() && mark <= snippetCharsMax {
		return 0
	}
	return start
}

// appendLine appends a text without line breaks.
func appendLine(dst []byte, text string) []byte {
	for i := 0; i < len(text); i++ {
		// Cassandra shows the snippet in one line.
		if c := text[i]; c != '\n' && c != '\r' {
			dst = append(dst, c)
		}
	}
	return dst
}
