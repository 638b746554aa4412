package cql

import (
	"errors"
	"slices"
	"strings"
)

// Redaction works in three steps. Most texts end after the first one, without allocation:
//
//	1. suspicious     does the text mention a password, a role or a user, or begin as no usual statement?
//	2. Parse          is it a statement? If not, redactInvalid removes all that may be a secret.
//	3. secrets        which tokens are secrets: of statements about roles by their options (redact_spans.go), of
//	                  others by the names of columns and fields (redact_columns.go)
//
// The steps work on tokens and on byte positions, so the rest of the text stays as it was written.

// redacted replaces a secret. Cassandra uses the same text.
const redacted = "*******"

// Redact returns a text without secrets, for logs, traces and tables that show statements. Secrets are passwords and
// their hashes, the values of OPTIONS of roles, which may be keys, the constants that a statement compares with or
// writes to a column or field whose name contains "password", and comments of statements about roles or with the word
// PASSWORD. Names, keywords and other literals remain.
//
// A text that is not a statement keeps only the part up to the word PASSWORD, as in Cassandra. Without this word it
// loses all literals and comments, and what may be a password without quotes, unless it begins as a statement about
// rows or the schema and has none of the words PASSWORD, ROLE and USER. Texts without secrets are returned unchanged;
// those that begin as a statement about rows or the schema and have none of these words, without allocation.
func Redact(text string) string {
	if !suspicious(text) {
		return text
	}
	// Only a valid statement has known places for secrets.
	if _, err := Parse(text); err != nil {
		return redactInvalid(text)
	}
	// The text is a statement, so its secrets stand in known places.
	return RedactStatement(text)
}

// RedactStatement is Redact for a text that Parse has accepted, which it does not parse again.
func RedactStatement(text string) string {
	if !suspicious(text) {
		return text
	}
	return redactSpans(text, secrets(text, tokensOf(text)))
}

// RedactError returns err's message for logs, without the secrets of the text to which it responds. It replaces the
// whole message if the secrets cannot be found in it in bounded time.
func RedactError(text string, err error) string {
	var syntax *SyntaxError
	// The message of a syntax error may quote any part of the text, so replace all of it.
	if suspicious(text) && errors.As(err, &syntax) {
		return obscuredSyntax
	}
	message, ok := redactMessage(text, err.Error())
	if !ok {
		// The class of the error is unknown, so use the neutral replacement.
		return obscured
	}
	return message
}

// Sensitive reports whether the values of a column or field of that name are secrets: they are not shown in logs,
// traces and tables of statements.
func Sensitive(name string) bool { return containsFold(name, "password") }

// redactMessage replaces the secrets of text in a message about it: short ones only as whole words, because they may
// be parts of others. It also finds literals whose last characters the snippet of a syntax error lacks. It returns
// false if the work exceeds redactionMax; the message must then not be shown.
func redactMessage(text, message string) (shown string, ok bool) {
	if !suspicious(text) {
		return message, true
	}
	all := tokensOf(text)
	// A message is about a text with an error, so a secret may stand where no literal belongs.
	misplaced, _ := unquoted(text, all, mentions(text))
	spans := append(secrets(text, all), misplaced...)
	if len(spans)*len(message) > redactionMax {
		return "", false
	}
	// a secret may contain another one
	slices.SortFunc(spans, func(a, b span) int { return b.to - b.from - (a.to - a.from) })
	for _, s := range spans {
		raw := text[s.from:s.to]
		// A message may contain the literal as written, or its content without doubled quotes.
		for _, secret := range []string{raw, unquote("'"+raw+"'", "'")} {
			if len(secret) >= secretBytesMin {
				message = strings.ReplaceAll(message, secret, redacted)
			} else {
				message = replaceWord(message, secret)
			}
		}
		message = replaceCut(message, text, s)
	}
	return message, true
}

// replaceCut replaces the secret text[s.from:s.to] in a message where its last bytes are missing and the character
// before it is the same.
func replaceCut(message, text string, s span) string {
	size := s.to - s.from
	least := max(min(size-4, secretBytesMin)+1, size-cutBytesMax+1, 1)
	if s.from == 0 || size == 0 {
		return message
	}
	// Short secrets may be parts of other words, so require quotes.
	if !strings.ContainsRune("'$\"", rune(text[s.from-1])) {
		least = max(least, secretBytesMin)
	}
	if least > size {
		return message
	}
	whole := text[s.from-1 : s.to]
	var b strings.Builder
	for {
		at := strings.Index(message, whole[:1+least])
		if at < 0 {
			break
		}
		// Replace the longest prefix of the secret that the message contains.
		n := 1 + least
		for n < len(whole) && at+n < len(message) && message[at+n] == whole[n] {
			n++
		}
		b.WriteString(message[:at+1])
		b.WriteString(redacted)
		message = message[at+n:]
	}
	b.WriteString(message)
	return b.String()
}

// Secrets with at least secretBytesMin bytes are replaced wherever they occur in a message.
const secretBytesMin = 4

const (
	// obscured replaces a message that may contain secrets.
	obscured = "Obscured for security reasons."
	// obscuredSyntax replaces the message of a syntax error. Cassandra uses the same text.
	obscuredSyntax = "Syntax Exception. " + obscured
)

// redactionMax bounds the work of redactMessage, which looks for each secret of a text in the whole message. A message
// that needs more is obscured. The secrets are found before that, in memory in proportion to the text.
const redactionMax = 32 << 20

// cutBytesMax bounds the number of bytes at the end of a literal that a snippet may lack: the closing quotes, and as
// many characters as the literal has bytes beyond one for each character.
const cutBytesMax = 4096

// replaceWord replaces a short secret where it stands within quotes or brackets.
func replaceWord(message, secret string) string {
	// Shorter secrets occur in other words, and would be replaced there.
	for _, around := range []string{"''", "()", "[]"} {
		message = strings.ReplaceAll(message, around[:1]+secret+around[1:], around[:1]+redacted+around[1:])
	}
	return message
}

// suspicious reports whether a text has a word that may precede a secret, or does not begin like a statement without
// secrets.
func suspicious(text string) bool {
	return mentions(text) || !ordinary(text)
}

// mentions reports whether a text has a word that may precede a secret. These are the words of statements about roles,
// and the ones that sensitive columns contain.
func mentions(text string) bool {
	// Three passes over the text, without an allocation.
	return containsFold(text, "password") || containsFold(text, "role") || containsFold(text, "user")
}

// ordinary reports whether a text begins as a statement about rows, the schema or permissions, or is empty. Others
// begin as statements about roles, or are no statements. It examines only one or two words, because it is called for
// every logged statement.
func ordinary(text string) bool {
	first, rest := firstWord(text)
	switch {
	case isOneOf(first, "select", "insert", "update", "delete", "begin", "apply", "batch", "use", "truncate", "drop",
		"list", "desc",
		"describe", "explain", "grant", "revoke", "comment", "security", "add", ""):
		// If only first is empty, the text begins with a digit or a symbol.
		return first != "" || rest == ""
	case isOneOf(first, "create", "alter"):
		second, _ := firstWord(rest)
		return isOneOf(second, "keyspace", "schema", "table", "columnfamily", "type", "index", "custom",
			"materialized", "function",
			"aggregate", "trigger", "or")
	}
	return false
}

// isOneOf compares without regard to case.
func isOneOf(word string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, word) })
}

// firstWord returns the letters at the beginning of a text, after white space and comments, and what follows them.
func firstWord(text string) (word, rest string) {
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		end := comment(text)
		if end == 0 {
			// No comment begins here, so a word does, or the text has none.
			break
		}
		text = text[end:]
	}
	n := 0
	for n < len(text) && (text[n]|0x20 >= 'a' && text[n]|0x20 <= 'z') {
		n++
	}
	return text[:n], text[n:]
}

// comment returns the length of the comment with which a text begins, also if it does not end; 0 means that it begins
// with none.
func comment(text string) int {
	closing, after := "", 0
	switch {
	case strings.HasPrefix(text, "--"), strings.HasPrefix(text, "//"):
		at := strings.IndexAny(text, "\r\n")
		if at < 0 {
			return len(text)
		}
		return at + 1
	case strings.HasPrefix(text, "/*"):
		// /*/ does not close the comment that it opens.
		closing, after = "*/", 2
	default:
		return 0
	}
	if at := strings.Index(text[after:], closing); at >= 0 {
		return after + at + len(closing)
	}
	return len(text)
}

// containsFold reports whether text contains a word of lower-case ASCII letters in any case.
func containsFold(text, word string) bool {
	// No allocation, unlike strings.ToLower.
	for i := 0; i+len(word) <= len(text); i++ {
		// Setting bit 5 folds an ASCII letter. The first byte excludes most positions cheaply.
		if text[i]|0x20 == word[0] && strings.EqualFold(text[i:i+len(word)], word) {
			return true
		}
	}
	return false
}
