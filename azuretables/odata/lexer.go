package odata

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is the kind of a $filter token. Keywords are names.
type tokenKind uint8

const (
	tokenEnd tokenKind = iota // of the end, text is empty
	tokenName
	tokenLiteral
	tokenOpen
	tokenClose
	tokenComma
	tokenMinus
	tokenOther // a character of OData's syntax that the Table service does not support
)

// token is the lexer's current token. at is its start. text is as written.
type token struct {
	kind tokenKind
	text string
	at   int // byte offset in the filter
	// The zero Value for other tokens.
	value Value // of a literal
}

// lexer splits a $filter into tokens. Its messages are copied from the service's OData library, which counts in UTF-16
// code units and reports the position after the unexpected token. The first error ends the parsing.
type lexer struct {
	text  string
	pos   int // after the current token
	token token
}

// position returns the position of the byte offset at, in UTF-16 code units, from 0.
func (x *lexer) position(at int) string { return strconv.Itoa(utf16Len(x.text[:at])) }

// errAt returns InvalidInput with a message that contains a position. The whole filter is part of the message, as in
// the recordings.
func (x *lexer) errAt(what string, at int) error {
	return invalid(what + " at position " + x.position(at) + " in '" + x.text + "'.")
}

// errSyntax returns the error for the current token.
func (x *lexer) errSyntax() error { return x.errAt("Syntax error", x.pos) }

// next reads the next token. At the end, it sets tokenEnd and leaves pos.
func (x *lexer) next() error {
	// White space includes Unicode's, as in .NET.
	for x.pos < len(x.text) {
		r, n := utf8.DecodeRuneInString(x.text[x.pos:])
		if !unicode.IsSpace(r) {
			break
		}
		x.pos += n
	}
	start := x.pos
	x.token = token{at: start}
	if start == len(x.text) {
		return nil
	}
	r, n := utf8.DecodeRuneInString(x.text[start:])
	switch {
	case r == '(':
		x.sign(tokenOpen)
	case r == ')':
		x.sign(tokenClose)
	case r == ',':
		x.sign(tokenComma)
	// Paths, wildcards and namespaces are OData, but not supported.
	case strings.ContainsRune("=/?*.:", r):
		x.sign(tokenOther)
	case r == '\'':
		return x.stringLiteral()
	// A minus is part of a literal, or the unary operator.
	case r == '-':
		return x.minus()
	case r >= '0' && r <= '9':
		return x.numberLiteral()
	// r is a letter or an underscore.
	case identifier(x.text[start : start+n]):
		return x.name()
	default:
		return invalid("Syntax error: character '" + string(r) + "' is not valid at position " + x.position(start) +
			" in '" + x.text + "'.")
	}
	return nil
}

// sign completes a token of one byte.
func (x *lexer) sign(kind tokenKind) {
	x.pos++
	x.token.kind = kind
	x.token.text = x.text[x.token.at:x.pos]
}

// literal completes the token of a literal that ends at pos; ok reports whether its text is valid. The error names the
// type that the text looks like.
func (x *lexer) literal(t Type, v Value, ok bool) error {
	// Also with an error, which ends the parsing.
	v.Type = t
	x.token.kind, x.token.value = tokenLiteral, v
	x.token.text = x.text[x.token.at:x.pos]
	if !ok {
		return invalid("Unrecognized '" + t.String() + "' literal '" + x.token.text + "' at '" +
			x.position(x.token.at) + "' in '" + x.text + "'.")
	}
	return nil
}

// stringLiteral reads 'text'. Its bytes are a copy.
func (x *lexer) stringLiteral() error {
	value, err := x.quoted()
	if err != nil {
		return err
	}
	return x.literal(String, Value{Bytes: []byte(value)}, true)
}

// quoted reads a quoted text at pos.
func (x *lexer) quoted() (string, error) {
	value, rest, ok := quoted(x.text[x.pos:])
	if !ok {
		// The message has the position of the end, as in the service.
		return "", x.errAt("There is an unterminated string literal", len(x.text))
	}
	x.pos = len(x.text) - len(rest)
	return value, nil
}

// minus reads a negative number, -INF, or the operator.
func (x *lexer) minus() error {
	rest := x.text[x.pos+1:]
	switch {
	case rest != "" && rest[0] >= '0' && rest[0] <= '9':
		return x.numberLiteral()
	// -INFO is the operator and a name.
	case strings.HasPrefix(rest, "INF") && (len(rest) == 3 || !identifier("a"+rest[3:4])):
		x.pos += 4
		return x.literal(Double, Value{Float: math.Inf(-1)}, true)
	}
	x.sign(tokenMinus)
	return nil
}

// numberLiteral reads literals such as 12, 12L, 1.5, 1e3 and 1.5d. A number with a fraction, an exponent or the suffix
// d, f or m is a Double; others are Int32 if they fit, or Int64.
func (x *lexer) numberLiteral() error {
	i := x.pos
	// The caller has checked that a digit follows.
	if x.text[i] == '-' {
		i++
	}
	i = x.digits(i)
	fraction := false
	if i < len(x.text) && x.text[i] == '.' {
		fraction = true
		n := x.digits(i + 1)
		// "1." is an error, as in the service's library.
		if n == i+1 {
			return x.errAt("A digit was expected", n)
		}
		i = n
	}
	if i < len(x.text) && x.text[i]|0x20 == 'e' {
		fraction = true
		i++
		if i < len(x.text) && (x.text[i] == '+' || x.text[i] == '-') {
			i++
		}
		n := x.digits(i)
		if n == i {
			return x.errAt("A digit was expected", n)
		}
		i = n
	}
	digits := x.text[x.pos:i]
	suffix := byte(0)
	// L is Int64, D Double, F Single, M Decimal. The last two become Double, because the service has no such types.
	if i < len(x.text) && strings.IndexByte("LlDdFfMm", x.text[i]) >= 0 {
		suffix = x.text[i] | 0x20
		i++
	}
	x.pos = i
	// A fraction with the suffix L is an invalid Double.
	if fraction || suffix != 0 && suffix != 'l' {
		f, ok := parseDouble(digits)
		return x.literal(Double, Value{Float: f}, ok && suffix != 'l')
	}
	digits = withoutZeros(digits)
	// Without a suffix, the smallest type that fits.
	if n, ok := parseInt(digits, 32); ok && suffix == 0 {
		return x.literal(Int32, Value{Int: n}, true)
	}
	n, ok := parseInt(digits, 64)
	return x.literal(Int64, Value{Int: n}, ok)
}

// withoutZeros returns an integer of at most 19 digits without the leading zeros of a longer one, which do not count.
func withoutZeros(digits string) string {
	number := strings.TrimPrefix(digits, "-")
	zeros := 0
	for zeros < len(number)-19 && number[zeros] == '0' {
		zeros++
	}
	// A filter may have 32 KiB of zeros: they are cut off at once.
	switch {
	case zeros == 0:
		return digits
	case len(number) < len(digits):
		return "-" + number[zeros:]
	}
	return number[zeros:]
}

// digits returns the position after the digits at i.
func (x *lexer) digits(i int) int {
	for i < len(x.text) && x.text[i] >= '0' && x.text[i] <= '9' {
		i++
	}
	return i
}

// name reads a name, or a literal that begins like one: true, datetime'…'.
func (x *lexer) name() error {
	start := x.pos
	for x.pos < len(x.text) {
		_, n := utf8.DecodeRuneInString(x.text[x.pos:])
		// identifier is applied to "a" and the character: it need not be allowed at the beginning.
		if c := x.text[x.pos]; c < utf8.RuneSelf && !identifier("a"+x.text[x.pos:x.pos+1]) ||
			c >= utf8.RuneSelf && !identifier("a"+x.text[x.pos:x.pos+n]) {
			break
		}
		x.pos += n
	}
	word := x.text[start:x.pos]
	// A name before a quotation mark is a prefix only if it is a known one; otherwise the quotation mark is a syntax
	// error later.
	if x.pos < len(x.text) && x.text[x.pos] == '\'' {
		if t := literalType(word); t != 0 {
			return x.prefixed(t)
		}
	}
	switch {
	case strings.EqualFold(word, "true"):
		return x.literal(Boolean, Value{Int: 1}, true)
	case strings.EqualFold(word, "false"):
		return x.literal(Boolean, Value{}, true)
	// The names of special doubles are case-sensitive, true and false are not.
	case word == "NaN":
		return x.literal(Double, Value{Float: math.NaN()}, true)
	case word == "INF":
		return x.literal(Double, Value{Float: math.Inf(1)}, true)
	}
	x.token.kind, x.token.text = tokenName, word
	return nil
}

// literalType returns the type for the word before a literal's quotation mark. Zero means that it is not a prefix.
func literalType(word string) Type {
	switch {
	// As in the service's OData library, prefixes have no case; X and x are both binary.
	case strings.EqualFold(word, "datetime"):
		return DateTime
	case strings.EqualFold(word, "guid"):
		return GUID
	case strings.EqualFold(word, "binary"), word == "X", word == "x":
		return Binary
	}
	return 0
}

// prefixed reads the quoted text of datetime'…', guid'…', binary'…' and X'…'. The error reports the type and the whole
// literal.
func (x *lexer) prefixed(t Type) error {
	// The prefix and the quotation mark are adjacent, or the word would be a name.
	text, err := x.quoted()
	if err != nil {
		return err
	}
	// The text was unquoted; the value is parsed by the rules of its type.
	var v Value
	ok := false
	switch t {
	case DateTime:
		v.Int, ok = ParseDateTime([]byte(text))
	case GUID:
		v.Bytes, ok = parseGUID(text, make([]byte, 16))
	case Binary:
		v.Bytes, ok = parseHex(text)
	}
	return x.literal(t, v, ok)
}

// parseHex parses pairs of digits. An odd number of them is invalid.
func parseHex(s string) ([]byte, bool) {
	b := make([]byte, 0, len(s)/2)
	for i := 0; i+1 < len(s); i += 2 {
		// Digits in either case.
		high, ok1 := hexDigit(s[i])
		low, ok2 := hexDigit(s[i+1])
		if !ok1 || !ok2 {
			return nil, false
		}
		b = append(b, high<<4|low)
	}
	return b, len(s)%2 == 0
}
