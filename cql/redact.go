package cql

import (
	"errors"
	"strings"

	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

// redacted replaces a secret. Cassandra uses the same text.
const redacted = "*******"

// Redact returns a text without the secrets of role statements, for logs: passwords and their hashes, and the values of
// OPTIONS, which may be keys. Names, keywords and other literals remain. Of a text with the word PASSWORD that is not a
// statement, only the part up to that word remains, as in Cassandra; of one with ROLE, USER or OPTIONS, string literals
// are replaced as well, because a misspelled keyword may precede a password. Texts without these words are returned
// unchanged, without allocation.
func Redact(text string) string {
	if !suspicious(text) {
		return text
	}
	if _, err := Parse(text); err != nil {
		return redactInvalid(text)
	}
	return RedactStatement(text)
}

// RedactStatement is Redact for a text that Parse has accepted, which it does not parse again.
func RedactStatement(text string) string {
	if !containsFold(text, "password") && !containsFold(text, "options") {
		return text
	}
	return redactSpans(text, secrets(text, tokensOf(text)))
}

// RedactError returns err's message for logs, without the secrets of the text to which it responds.
func RedactError(text string, err error) string {
	var syntax *SyntaxError
	if suspicious(text) && errors.As(err, &syntax) {
		return "Syntax Exception. Obscured for security reasons."
	}
	return redactMessage(text, err.Error())
}

// redactMessage replaces the secrets of text in a message about it: short ones only within quotes or brackets, because they
// may be parts of words. The snippet of a syntax error may lack the last characters of a literal.
func redactMessage(text, message string) string {
	if !suspicious(text) {
		return message
	}
	all := tokensOf(text)
	for _, s := range append(secrets(text, all), misplaced(text, all)...) {
		raw := text[s.from:s.to]
		for _, secret := range []string{raw, unquote("'"+raw+"'", "'")} {
			if len(secret) >= secretBytesMin {
				message = strings.ReplaceAll(message, secret, redacted)
			}
			for _, around := range []string{"''", "()", "[]"} {
				message = strings.ReplaceAll(message, around[:1]+secret+around[1:], around[:1]+redacted+around[1:])
			}
		}
		for cut := range min(len(raw), 4) {
			if part := raw[:len(raw)-cut]; s.from > 0 {
				message = strings.ReplaceAll(message, text[s.from-1:s.from]+part, text[s.from-1:s.from]+redacted)
			}
		}
	}
	return message
}

// secretBytesMin is the length from which secrets are replaced wherever they occur in a message.
const secretBytesMin = 4

// misplaced returns the tokens in the place of a password that are not string literals, in a text that is not a statement.
func misplaced(text string, all []lexeme) (spans []span) {
	for i, t := range all {
		if kindBefore(all, i) != grammar.CqlLexerK_PASSWORD {
			continue
		}
		switch t.kind {
		case grammar.CqlLexerIDENT, grammar.CqlLexerINTEGER, grammar.CqlLexerFLOAT, grammar.CqlLexerUUID, grammar.CqlLexerHEXNUMBER:
			spans = append(spans, span{t.from, t.to})
		case grammar.CqlLexerQUOTED_NAME:
			spans = append(spans, span{t.from + 1, t.to - 1})
		case grammar.CqlLexerUNTERMINATED_NAME:
			spans = append(spans, span{t.from + 1, t.to})
		}
	}
	return spans
}

// suspicious reports whether a text has a word that may precede a secret, also if PASSWORD is misspelled.
func suspicious(text string) bool {
	return containsFold(text, "password") || containsFold(text, "role") || containsFold(text, "user")
}

// containsFold reports whether text contains a word of lower-case ASCII letters in any case.
func containsFold(text, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i]|0x20 == word[0] && strings.EqualFold(text[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

// lexeme is a token with its position in bytes.
type lexeme struct {
	kind     int
	from, to int
}

// tokensOf returns the tokens of a text. Comments are not tokens, but the lexer's unterminated comments are.
func tokensOf(text string) []lexeme {
	lexer := grammar.NewCqlLexer(characters(text, &asciiStream{}))
	lexer.RemoveErrorListeners()
	at := func(char int) int { return char }
	if !ascii(text) {
		starts := make([]int, 0, len(text)+1) // byte offsets of the characters
		for i := range text {
			starts = append(starts, i)
		}
		starts = append(starts, len(text))
		at = func(char int) int { return starts[min(char, len(starts)-1)] }
	}
	var all []lexeme
	for {
		t := lexer.NextToken()
		if t.GetTokenType() == antlr.TokenEOF {
			return all
		}
		all = append(all, lexeme{t.GetTokenType(), at(t.GetStart()), at(t.GetStop() + 1)})
	}
}

// span is a part of a text, in bytes.
type span struct{ from, to int }

// secrets returns the contents, without quotes, of the literals that are passwords, and, in a role statement, of the
// values of OPTIONS.
func secrets(text string, all []lexeme) (spans []span) {
	role := len(all) > 1 && (all[1].kind == grammar.CqlLexerK_ROLE || all[1].kind == grammar.CqlLexerK_USER)
	options := false
	for i, t := range all {
		previous := kindBefore(all, i)
		switch {
		case t.kind == grammar.CqlLexerK_OPTIONS && role:
			options = true
		case !isString(t.kind):
		case previous == grammar.CqlLexerK_PASSWORD:
			spans = append(spans, content(text, t))
		case options && i > 0 && all[i-1].kind == grammar.CqlLexerCOLON:
			spans = append(spans, content(text, t))
		}
	}
	return spans
}

// kindBefore returns the kind of the token before the i-th one and an optional equals sign.
func kindBefore(all []lexeme, i int) int {
	i--
	if i >= 0 && all[i].kind == grammar.CqlLexerEQ {
		i--
	}
	if i < 0 {
		return antlr.TokenInvalidType
	}
	return all[i].kind
}

func isString(kind int) bool {
	return kind == grammar.CqlLexerSTRING_LITERAL || kind == grammar.CqlLexerUNTERMINATED_STRING || kind == grammar.CqlLexerUNTERMINATED_DOLLAR
}

// content returns the part of a literal within its quotes.
func content(text string, t lexeme) span {
	quotes := 1
	if text[t.from] == '$' {
		quotes = 2
	}
	if t.kind != grammar.CqlLexerSTRING_LITERAL { // no closing quotes
		return span{min(t.from+quotes, t.to), t.to}
	}
	return span{t.from + quotes, t.to - quotes}
}

func redactSpans(text string, spans []span) string {
	if len(spans) == 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for _, s := range spans {
		b.WriteString(text[at:s.from])
		b.WriteString(redacted)
		at = s.to
	}
	b.WriteString(text[at:])
	return b.String()
}

// redactInvalid is Redact for a text that is not a statement.
func redactInvalid(text string) string {
	var spans []span
	for _, t := range tokensOf(text) {
		switch {
		case t.kind == grammar.CqlLexerK_PASSWORD:
			return redactSpans(text[:t.to], spans) + " " + redacted
		case isString(t.kind):
			spans = append(spans, content(text, t))
		case t.kind == grammar.CqlLexerUNTERMINATED_NAME, t.kind == grammar.CqlLexerUNTERMINATED_COMMENT:
			return redactSpans(text[:t.from], spans) + redacted
		}
	}
	return redactSpans(text, spans)
}
