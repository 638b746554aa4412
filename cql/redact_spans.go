package cql

import (
	"cmp"
	"slices"
	"strings"

	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

// lexeme is a token with its position in bytes. Unlike the lexer's token it is small, and its positions are offsets in
// the text: to is exclusive.
type lexeme struct {
	kind     int
	from, to int
}

// tokensOf returns the tokens of a text. Comments are not tokens, but the lexer's unterminated comments are. The lexer
// accepts every text, so it also works for one that is not a statement. The token of the end is not among them.
func tokensOf(text string) []lexeme {
	lexer := grammar.NewCqlLexer(characters(text, &asciiStream{}))
	lexer.RemoveErrorListeners()
	at := func(char int) int { return char }
	if !ascii(text) {
		// The lexer counts characters in a text that is not ASCII.
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

// redactSpans replaces parts of a text, which may overlap. It sorts spans.
func redactSpans(text string, spans []span) string {
	if len(spans) == 0 {
		return text
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	// at is the end of the text that was copied or replaced so far.
	at := 0
	for _, s := range spans {
		// The span overlaps the previous one.
		if s.from < at {
			at = max(at, s.to)
			continue
		}
		b.WriteString(text[at:s.from])
		b.WriteString(redacted)
		at = s.to
	}
	b.WriteString(text[at:])
	return b.String()
}

// secrets returns the contents, without quotes, of the secrets of a statement: passwords, the values of OPTIONS,
// values of sensitive columns, and comments that may contain any of these.
func secrets(text string, all []lexeme) []span {
	// Other statements contain secrets only in values of sensitive columns, and in comments.
	if !isRole(all) {
		// Search once, not for each comment.
		sensitive := containsFold(text, "password")
		return append(columnSecrets(text, all), comments(text, all, func(c string) bool {
			return sensitive || strings.ContainsAny(c, "'\"$") &&
				(containsFold(c, "role") || containsFold(c, "user"))
		})...)
	}
	spans := comments(text, all, func(string) bool { return true })
	// OPTIONS = {key: value}: the keys stay, and each value is a secret up to the comma or brace. Within OPTIONS, and
	// after the colon of an entry.
	options, value := false, false
	for i, t := range all {
		switch {
		case t.kind == grammar.CqlLexerK_OPTIONS:
			options = true
		case t.kind == grammar.CqlLexerCOLON:
			value = options
		case t.kind == grammar.CqlLexerCOMMA, t.kind == grammar.CqlLexerRBRACE:
			value = false
		case isConstant(t.kind) && (value || kindBefore(all, i) == grammar.CqlLexerK_PASSWORD):
			spans = append(spans, content(text, t))
		}
	}
	return spans
}

// isRole reports whether tokens begin as a statement that may set a password.
func isRole(all []lexeme) bool {
	return len(all) > 1 && (all[0].kind == grammar.CqlLexerK_CREATE || all[0].kind == grammar.CqlLexerK_ALTER) &&
		(all[1].kind == grammar.CqlLexerK_ROLE || all[1].kind == grammar.CqlLexerK_USER)
}

// comments returns the contents of the comments for which secret returns true. Only white space and comments stand
// between tokens.
func comments(text string, all []lexeme, secret func(comment string) bool) (spans []span) {
	at := 0
	for i := 0; i <= len(all); i++ {
		end := len(text)
		if i < len(all) {
			end = all[i].from
		}
		for at < end {
			// 0 means white space: one byte further.
			n := comment(text[at:end])
			if n == 0 {
				at++
				continue
			}
			if secret(text[at : at+n]) {
				spans = append(spans, commentContent(text, at, at+n))
			}
			at += n
		}
		if i < len(all) {
			at = all[i].to
			if k := all[i].kind; k == grammar.CqlLexerUNTERMINATED_LINE || k == grammar.CqlLexerUNTERMINATED_COMMENT {
				if secret(text[all[i].from:at]) {
					spans = append(spans, commentContent(text, all[i].from, at))
				}
			}
		}
	}
	return spans
}

// commentContent returns a comment without the characters that begin and end it.
func commentContent(text string, from, to int) span {
	// All comments begin with two characters.
	s := span{min(from+2, to), to}
	if body := text[s.from:to]; strings.HasPrefix(text[from:], "/*") {
		s.to -= len(body) - len(strings.TrimSuffix(body, "*/"))
	} else {
		s.to -= len(body) - len(strings.TrimRight(body, "\r\n"))
	}
	return s
}

// kindBefore returns the kind of the token before the i-th one and an optional equals sign. PASSWORD = 'x' and PASSWORD
// 'x' are both allowed.
func kindBefore(all []lexeme, i int) int {
	i--
	// The sign is optional before a password.
	if i >= 0 && all[i].kind == grammar.CqlLexerEQ {
		i--
	}
	if i < 0 {
		return antlr.TokenInvalidType
	}
	return all[i].kind
}

// isString reports whether a token is a string literal, also one that does not end.
func isString(kind int) bool {
	return kind == grammar.CqlLexerSTRING_LITERAL || kind == grammar.CqlLexerUNTERMINATED_STRING ||
		kind == grammar.CqlLexerUNTERMINATED_DOLLAR
}

// isConstant reports whether a token is a literal.
func isConstant(kind int) bool {
	switch kind {
	case grammar.CqlLexerUUID, grammar.CqlLexerHEXNUMBER, grammar.CqlLexerINTEGER, grammar.CqlLexerFLOAT,
		grammar.CqlLexerDURATION,
		grammar.CqlLexerISO_DURATION:
		return true
	}
	return isString(kind)
}

// content returns the part of a literal within its quotes.
func content(text string, t lexeme) span {
	// The quotes stay, so that the redacted text looks like a literal.
	quotes := 1
	switch {
	case !isString(t.kind):
		return span{t.from, t.to}
	case text[t.from] == '$':
		quotes = 2
	}
	if t.kind != grammar.CqlLexerSTRING_LITERAL { // no closing quotes
		return span{min(t.from+quotes, t.to), t.to}
	}
	return span{t.from + quotes, t.to - quotes}
}

// redactInvalid is Redact for a text that is not a statement. It errs on the side of removing too much.
func redactInvalid(text string) string {
	all := tokensOf(text)
	// Names count as secrets too: the password may lack its quotes.
	spans, sensitive := unquoted(text, all, true)
	for i, t := range all {
		switch {
		// Everything after the name may be its value.
		case i == sensitive:
			return redactSpans(text[:t.to], upTo(spans, t.to)) + " " + redacted
		// Such a token contains the rest of the text.
		case t.kind == grammar.CqlLexerUNTERMINATED_NAME, t.kind == grammar.CqlLexerUNTERMINATED_COMMENT,
			t.kind == grammar.CqlLexerUNTERMINATED_LINE:
			return redactSpans(text[:t.from], upTo(spans, t.from)) + redacted
		}
	}
	return redactSpans(text, spans)
}

// isSensitiveName reports whether a token is a sensitive name.
func isSensitiveName(text string, t lexeme) bool {
	return !isConstant(t.kind) && !isPunctuation(t.kind) && t.kind < grammar.CqlLexerWHITESPACE &&
		Sensitive(text[t.from:t.to])
}

// listed reports whether the i-th token is an element of a list, such as a column of INSERT, so that no value follows
// it.
func listed(all []lexeme, i int) bool {
	return i > 0 && i+1 < len(all) && (all[i-1].kind == grammar.CqlLexerLPAREN ||
		all[i-1].kind == grammar.CqlLexerCOMMA) &&
		(all[i+1].kind == grammar.CqlLexerRPAREN || all[i+1].kind == grammar.CqlLexerCOMMA)
}

// upTo returns the spans that end at a position or before.
func upTo(spans []span, at int) []span {
	return slices.DeleteFunc(spans, func(s span) bool { return s.to > at })
}

// unquoted returns what may be a secret in a text that is not a statement: literals, comments, and, unless the text
// begins as a statement about rows or the schema, values without quotes and, if names is true, names that are not in
// the place of a role or option name. sensitive is the index of the first sensitive name that is not itself a value,
// or -1.
func unquoted(text string, all []lexeme, names bool) (spans []span, sensitive int) {
	spans, sensitive = comments(text, all, func(string) bool { return true }), -1
	// In a text about rows or the schema, only literals are secrets, up to the first sensitive column.
	plain := ordinary(text)
	rows := plain  // until a sensitive name
	value := false // after an equals sign or a colon, up to the end of the option
	// value reports whether the token follows = or a colon.
	for i, t := range all {
		if !value && (t.kind == grammar.CqlLexerK_PASSWORD || plain && isSensitiveName(text, t)) && !listed(all, i) {
			if value, rows = true, false; sensitive < 0 {
				sensitive = i
			}
			continue
		}
		switch {
		case isConstant(t.kind):
			spans = append(spans, content(text, t))
		case t.kind == grammar.CqlLexerQUOTED_NAME, t.kind == grammar.CqlLexerUNTERMINATED_NAME:
			if !rows && (value || names && !named(all, i)) {
				spans = append(spans, span{t.from + 1, max(t.to-1, t.from+1)})
			}
		case t.kind == grammar.CqlLexerEQ, t.kind == grammar.CqlLexerCOLON:
			// The next token may be an unquoted value.
			value = true
		case t.kind == grammar.CqlLexerK_AND, t.kind == grammar.CqlLexerCOMMA, t.kind == grammar.CqlLexerRBRACE,
			t.kind == grammar.CqlLexerSEMICOLON, t.kind == grammar.CqlLexerK_WITH:
			value = false
		case isPunctuation(t.kind), rows:
		case value, names && t.kind == grammar.CqlLexerIDENT && !named(all, i):
			spans = append(spans, span{t.from, t.to})
		}
	}
	return spans, sensitive
}

// named reports whether the i-th token is in the place of a role name, or of an option with a value.
func named(all []lexeme, i int) bool {
	if i+1 < len(all) && all[i+1].kind == grammar.CqlLexerEQ {
		return true
	}
	// The first word of a statement is its verb, if more follows.
	if i == 0 {
		return i+1 < len(all)
	}
	switch all[i-1].kind {
	case grammar.CqlLexerK_ROLE, grammar.CqlLexerK_USER, grammar.CqlLexerK_EXISTS, grammar.CqlLexerK_TO,
		grammar.CqlLexerK_FROM,
		grammar.CqlLexerK_CREATE, grammar.CqlLexerK_ALTER:
		return true
	}
	return false
}

// isPunctuation reports whether a token is neither a word nor a literal.
func isPunctuation(kind int) bool {
	// The lexer's grammar declares all punctuation in one block, from SEMICOLON to EXPR_LPAREN.
	return kind >= grammar.CqlLexerSEMICOLON && kind <= grammar.CqlLexerEXPR_LPAREN
}
