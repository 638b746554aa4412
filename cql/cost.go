package cql

import "strings"

const (
	// tokenParsed is what a token takes while its statement is parsed, with its part of the syntax tree, and
	// tokenKept what is left of it in the Statement and in what is compiled from that.
	tokenParsed = 800
	tokenKept   = 100
	// wideByte is what a byte of a text that is not ASCII takes in addition, while it is parsed.
	wideByte = 5
	// operatorsFree is the number of operators that need no further stack, and operatorStack the stack for each
	// further one.
	operatorsFree = 64
	operatorStack = 2 << 10
)

// ParseBytes returns the memory that Parse needs for a text at most, and how much of it the Statement keeps. It counts
// words without parsing: at least as many as the text has tokens, and in quoted text no more than it has quotes. It
// reads the text once and does not allocate. Package query reserves this memory before it calls Parse.
func ParseBytes(text string) (parsed, kept int) {
	// The end of the text is a token too.
	tokens, operators, wide := 1, 0, false
	// Whether a word is open, whether it began with a letter, and whether it contains one that no blob or UUID has.
	inside, named, letters := false, false, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_':
			// A run of letters and digits counts once.
			if !inside {
				tokens++
				named = c > '9' && c != '_'
				letters = named
			}
			// A keyword may follow a number without a space. Blobs and UUIDs count once for each of their words.
			if low := c | 0x20; low > 'f' && low <= 'z' && low != 'x' && !letters {
				letters = true
				tokens++
			}
			// Only a name continues with an underscore. Elsewhere it is a token, which ends the one before.
			if c == '_' && !named {
				tokens += 2
			}
			inside = true
			continue
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
		case c == '\'' || c == '"':
			tokens++
			// The content of a literal is one token, whatever it contains. A doubled quote begins another literal here,
			// which counts too many.
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
		// Skipped, because a quote in a comment begins no literal. One without an end is a token.
		case (c == '-' || c == '/') && comment(text[i:]) > 0:
			tokens++
			end := i + comment(text[i:])
			wide = wide || !ascii(text[i:end])
			i = end - 1
		// Each byte of a character counts as a token, which is too many.
		case c >= 0x80:
			wide = true
			tokens++
		case c == '+' || c == '-' || c == '*' || c == '/' || c == '%':
			// Also in UUIDs and negative numbers, which have none: the bound only gets larger.
			operators++
			tokens++
		default:
			tokens++
		}
		inside = false
	}
	// Parse refuses a text with more tokens before it builds anything.
	tokens = min(tokens, tokensMax)
	// The statement shares memory with the text.
	kept = tokens*tokenKept + 2*len(text)
	parsed = tokens*tokenParsed + kept + max(min(operators, operatorsMax)-operatorsFree, 0)*operatorStack
	if wide {
		parsed += wideByte * len(text)
	}
	return parsed, kept
}
