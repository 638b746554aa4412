package java

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// tokenKind is the kind of a token. The zero value is the end of the body.
type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenInt // also long, with the suffix L
	tokenFloat
	tokenString
	tokenChar // text is the character
	tokenSymbol
)

// token is one symbol of a body. Its text is a part of the body, except for literals with escapes. Keywords are names:
// the compiler knows them by their text.
type token struct {
	kind tokenKind
	text string // of a string: its value
	// line counts from 1, for messages.
	line int
}

// tokensMax bounds the tokens of a body. It also bounds the time of the compilation, in which each token is read a few
// times.
const tokensMax = 20000

// symbols are the operators and separators, longest first. The first match is the longest, so the order matters.
// Symbols that the compiler does not know, such as -> and @, are recognized so that the message can name them.
func symbols() []string {
	return []string{">>>=", "<<=", ">>=", ">>>", "++", "--", "&&", "||", "==", "!=", "<=", ">=", "+=", "-=", "*=",
		"/=", "%=", "&=", "|=", "^=",
		"<<", ">>", "->", "::", "+", "-", "*", "/", "%", "<", ">", "=", "!", "~", "?", ":", ";", ",", ".", "(", ")",
		"{", "}", "[", "]", "&", "|", "^", "@"}
}

// lex returns the tokens of a body, with an end. It reports errors with invalid and unsupported, which panic.
// Comments and white space end tokens and are dropped. Names in other scripts than ASCII are refused as invalid
// characters.
func lex(body string) []token {
	var out []token
	line := 1
	for i := 0; i < len(body); {
		c := body[i]
		switch {
		case c == '\n':
			// A line ends with \n; \r counts as white space.
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			i++
		case strings.HasPrefix(body[i:], "//"):
			for i < len(body) && body[i] != '\n' {
				i++
			}
		case strings.HasPrefix(body[i:], "/*"):
			end := strings.Index(body[i+2:], "*/")
			if end < 0 {
				invalid(line, "Unexpected end of comment")
			}
			// A comment may span lines.
			line += strings.Count(body[i:i+end+4], "\n")
			i += end + 4
		case c == '"':
			text, n := lexQuoted(body[i:], line)
			out, i = append(out, token{tokenString, text, line}), i+n
		case c == '\'':
			text, n := lexQuoted(body[i:], line)
			// A char is one unit of UTF-16.
			if runes := []rune(text); len(runes) != 1 || runes[0] > 0xffff {
				invalid(line, "Invalid character constant")
			}
			out, i = append(out, token{tokenChar, text, line}), i+n
		// A dot before a digit begins a number: .5.
		case isDigit(c) || c == '.' && i+1 < len(body) && isDigit(body[i+1]):
			t := lexNumber(body[i:], line)
			out, i = append(out, t), i+len(t.text)
		case isLetter(c):
			n := 1
			for i+n < len(body) && (isLetter(body[i+n]) || isDigit(body[i+n])) {
				n++
			}
			out, i = append(out, token{tokenName, body[i : i+n], line}), i+n
		default:
			s := symbolAt(body[i:])
			// None matched.
			if s == "" {
				r, _ := utf8.DecodeRuneInString(body[i:])
				invalid(line, "Invalid Character %q", r)
			}
			out, i = append(out, token{tokenSymbol, s, line}), i+len(s)
		}
		if len(out) > tokensMax {
			unsupported(line, "a body with more than "+strconv.Itoa(tokensMax)+" symbols")
		}
	}
	return append(out, token{tokenEnd, "", line})
}

// isDigit reports whether c is a decimal digit.
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isLetter reports whether c may begin a name. Names have ASCII characters only. Java allows letters of all scripts in
// names; functions of Cassandra rarely have them.
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '$' }

// symbolAt returns the symbol at the beginning of s, or "".
func symbolAt(s string) string {
	for _, symbol := range symbols() {
		if strings.HasPrefix(s, symbol) {
			return symbol
		}
	}
	return ""
}

// lexQuoted returns the value of the string or character literal at the beginning of s, and its length in s. It
// replaces escapes: \b \t \n \f \r \" \' \\, \u0041, and octal ones. A literal must not contain the end of a line. Text
// blocks are not supported.
func lexQuoted(s string, line int) (string, int) {
	var b strings.Builder
	unclosed := "String literal is not properly closed by a double-quote"
	if s[0] == '\'' {
		unclosed = "Invalid character constant"
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case s[0]:
			return b.String(), i + 1
		case '\n':
			invalid(line, "%s", unclosed)
		case '\\':
			i++
			if i >= len(s) {
				break
			}
			if s[i] == 'u' && i+4 < len(s) {
				// Four digits exactly.
				n, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
				// A single surrogate has no form in UTF-8.
				if err != nil || utf16.IsSurrogate(rune(n)) {
					unsupported(line, "the escape sequence \\"+s[i:i+5])
				}
				b.WriteRune(rune(n))
				i += 4
				break
			}
			if digits := octal(s[i:]); digits > 0 {
				n, _ := strconv.ParseUint(s[i:i+digits], 8, 8)
				b.WriteRune(rune(n))
				i += digits - 1
				break
			}
			plain := strings.IndexByte(`btnfr"'\`, s[i])
			if plain < 0 {
				unsupported(line, "the escape sequence \\"+s[i:i+1])
			}
			b.WriteByte("\b\t\n\f\r\"'\\"[plain])
		default:
			b.WriteByte(s[i])
		}
	}
	invalid(line, "%s", unclosed)
	return "", 0
}

// octal returns the number of digits of an octal escape: up to two, or three if the first is 0 to 3 (JLS 3.10.7).
func octal(s string) (n int) {
	most := 2
	if s[0] <= '3' {
		most = 3
	}
	for n < min(most, len(s)) && '0' <= s[n] && s[n] <= '7' {
		n++
	}
	return n
}

// lexNumber returns the number at the beginning of s, with its suffix. The value is parsed later, by intLiteral and
// floatLiteral.
func lexNumber(s string, line int) token {
	n := 0
	t := token{kind: tokenInt, line: line}
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		for n = 2; n < len(s) && strings.IndexByte("0123456789abcdefABCDEF_", s[n]) >= 0; n++ {
		}
	} else {
		for n < len(s) && (isDigit(s[n]) || s[n] == '_') {
			n++
		}
		// 1.toString is no number: a dot before a letter belongs to the number only if the letter is an exponent or a
		// suffix.
		if n < len(s) && s[n] == '.' && (n+1 >= len(s) || !isLetter(s[n+1]) ||
			strings.IndexByte("dDfFeE", s[n+1]) >= 0) {
			t.kind = tokenFloat
			for n++; n < len(s) && isDigit(s[n]); n++ {
			}
		}
		if n < len(s) && s[n]|0x20 == 'e' {
			t.kind = tokenFloat
			n++
			if n < len(s) && (s[n] == '+' || s[n] == '-') {
				n++
			}
			for n < len(s) && isDigit(s[n]) {
				n++
			}
		}
	}
	if n < len(s) && strings.IndexByte("fFdD", s[n]) >= 0 {
		t.kind = tokenFloat
		n++
	} else if n < len(s) && s[n]|0x20 == 'l' && t.kind == tokenInt {
		n++
	}
	t.text = s[:n]
	return t
}
