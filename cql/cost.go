package cql

import "strings"

const (
	// tokenParsed is the memory of a token during parsing, in bytes, including its part of the syntax tree. tokenKept
	// is the memory of its part of the Statement and of the plan compiled from it.
	tokenParsed = 800
	tokenKept   = 100
	// wideByte is the additional memory for each byte of a non-ASCII text during parsing.
	wideByte = 5
	// operatorsFree is the number of operators that need no additional stack, and operatorStack the stack in bytes
	// for each further one.
	operatorsFree = 64
	operatorStack = 2 << 10
)

// ParseBytes returns an upper bound of the memory that Parse needs for a text, in bytes, and how much of it the
// Statement keeps. It counts words without parsing; the count is at least the number of tokens. It reads the text
// once and does not allocate. Package query reserves this memory before it calls Parse.
func ParseBytes(text string) (parsed, kept int) {
	// The end of the text is a token too.
	tokens, operators, wide := 1, 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case wordByte(c):
			n, end := word(text, i)
			tokens += n
			i = end - 1
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
		case c == '\'' || c == '"':
			tokens++
			// The content of a literal is one token. A doubled quote counts as the start of another literal, which
			// only overestimates.
			for i++; i < len(text) && text[i] != c; i++ {
				wide = wide || text[i] >= 0x80
			}
		case c == '$' && strings.HasPrefix(text[i:], "$$"):
			tokens++
			// Without an end the rest is counted as ordinary text.
			if end := strings.Index(text[i+2:], "$$"); end >= 0 {
				wide = wide || !ascii(text[i:i+2+end])
				i += end + 3
			}
		// Skip comments, in which a quote does not begin a literal. An unterminated comment is a token.
		case (c == '-' || c == '/') && comment(text[i:]) > 0:
			tokens++
			end := i + comment(text[i:])
			wide = wide || !ascii(text[i:end])
			i = end - 1
		// Each byte of a non-ASCII character counts as a token, which only overestimates.
		case c >= 0x80:
			wide = true
			tokens++
		case c == '+' || c == '-' || c == '*' || c == '/' || c == '%':
			// This also counts hyphens in UUIDs and negative numbers, which only overestimates.
			operators++
			tokens++
		default:
			tokens++
		}
	}
	// Parse rejects a text with more tokens before it builds anything.
	tokens = min(tokens, tokensMax)
	// The statement shares memory with the text.
	kept = tokens*tokenKept + 2*len(text)
	parsed = tokens*tokenParsed + kept + max(min(operators, operatorsMax)-operatorsFree, 0)*operatorStack
	if wide {
		parsed += wideByte * len(text)
	}
	return parsed, kept
}

// wordByte reports whether c is a letter, a digit or an underscore of ASCII.
func wordByte(c byte) bool {
	return digit(c) || letter(c) || c == '_'
}

// digit reports whether c is a digit of ASCII.
func digit(c byte) bool { return c >= '0' && c <= '9' }

// letter reports whether c is a letter of ASCII.
func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// hexByte reports whether c is a hexadecimal digit.
func hexByte(c byte) bool { return digit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// word returns where the word ends that begins at text[at], and a bound of its tokens. The word is a sequence of
// letters, digits and underscores, or a UUID.
//
//	a1_b     1   a name continues with everything that follows
//	0xab12   1   a blob
//	1d1e1d   4   a number followed by another one, a duration or a name: one token for each change to letters
//	1.e5_1   5   the word begins at e, counts as two, and may be an exponent
//	1_2      3   an underscore is a token outside of names
func word(text string, at int) (tokens, end int) {
	previous := byte(' ')
	if at > 0 {
		previous = text[at-1]
	}
	if startsToken(previous) && isUUID(text[at:]) {
		return 1, at + uuidLength
	}
	// After a point an exponent may continue a number, as in 1.e5_1, and ends before the underscore.
	exponent := previous == '.' && text[at]|0x20 == 'e' && at+1 < len(text) && digit(text[at+1])
	// After a minus sign a name may be a duration of ISO 8601, and after a micro sign the rest of a duration's unit.
	if letter(text[at]) && previous != '-' && previous < 0x80 && !exponent {
		for end = at; end < len(text) && wordByte(text[end]); end++ {
			continue
		}
		return 1, end
	}
	end = at
	if text[at] == '0' && at+1 < len(text) && text[at+1]|0x20 == 'x' {
		for end += 2; end < len(text) && hexByte(text[end]); end++ {
			continue
		}
		tokens++
		previous = '0'
	}
	for ; end < len(text) && wordByte(text[end]); end++ {
		switch c := text[end]; {
		case c == '_':
			tokens++
		case previous == '_' || end == at:
			tokens++
		case letter(c) && !letter(previous):
			tokens++
		}
		previous = text[end]
	}
	return tokens, end
}

// startsToken reports whether a token always begins after c. After a sign or a point it may continue a number.
func startsToken(c byte) bool {
	switch c {
	case ' ', '\n', '\t', '\r', ',', ';', '(', '[', '{', '=', '<', '>':
		return true
	}
	return false
}

// uuidLength is the number of characters of a UUID.
const uuidLength = 36

// isUUID reports whether a text begins with a UUID, which is one token.
func isUUID(text string) bool {
	if len(text) < uuidLength {
		return false
	}
	for i := range uuidLength {
		hyphen := i == 8 || i == 13 || i == 18 || i == 23
		if hyphen != (text[i] == '-') || !hyphen && !hexByte(text[i]) {
			return false
		}
	}
	return true
}
