package lua

import "strings"

// checkNesting refuses a body whose brackets and blocks are nested too deeply, before the parser keeps all of them on
// its stack. Bodies with other errors are left to the parser. It need not be exact: it reads words and brackets, and
// skips strings and comments.
//
// The parser of the library recurses on Go's stack once for each level, which the meter does not count.
func checkNesting(body string) error {
	depth := 0
	for i, line := 0, 1; i < len(body); {
		c := body[i]
		if c == '\n' {
			line++
		}
		// The position after the token at i, and by how much it changes the depth.
		next := i + 1
		change := 0
		switch {
		case c == '-' && strings.HasPrefix(body[i:], "--"):
			next = afterComment(body, i+2)
		case c == '"' || c == '\'':
			next = afterString(body, i)
		// Before the plain bracket: [[ and [=[ begin a string.
		case c == '[' && longBracket(body[i:]) >= 0:
			next = afterLong(body, i)
		case c == '(' || c == '[' || c == '{':
			change = 1
		case c == ')' || c == ']' || c == '}':
			change = -1
		case isNamePart(c):
			// The whole word: undo contains do, and is no keyword.
			for next < len(body) && isNamePart(body[next]) {
				next++
			}
			change = blockChange(body[i:next])
		}
		// An end too many is an error that the parser reports.
		if depth = max(depth+change, 0); depth > nestingMax {
			return nestingError(line)
		}
		line += strings.Count(body[i+1:next], "\n")
		i = next
	}
	return nil
}

// blockChange returns by how much a word changes the number of open blocks. elseif and else continue a block. for and
// while are not among them, because each is followed by do.
func blockChange(word string) int {
	switch word {
	case "do", "if", "function", "repeat": // while and for have do
		return 1
	case "end", "until":
		return -1
	}
	return 0
}

// isNamePart reports whether c may be part of a name or a number. Names in scripts are ASCII.
func isNamePart(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= '0' && c <= '9'
}

// longBracket returns the number of equals signs in the long bracket at the beginning of s, or -1. s begins with a
// bracket. A bracket that does not begin a long string has level -1.
func longBracket(s string) int {
	n := 1
	// [==[ has level 2, and ends with ]==].
	for n < len(s) && s[n] == '=' {
		n++
	}
	if n < len(s) && s[n] == '[' {
		return n - 1
	}
	return -1
}

// afterLong returns the position after the long string at i. It may span lines, which the caller counts.
func afterLong(body string, i int) int {
	level := longBracket(body[i:])
	// The opening has two brackets around the equals signs.
	begin := i + level + 2
	if n := strings.Index(body[begin:], "]"+strings.Repeat("=", level)+"]"); n >= 0 {
		return begin + n + level + 2
	}
	// The parser reports that it does not end.
	return len(body)
}

// afterComment returns the position after the comment whose text begins at i. A short comment ends at the end of its
// line.
func afterComment(body string, i int) int {
	// --[[ begins a comment of several lines.
	if i < len(body) && body[i] == '[' && longBracket(body[i:]) >= 0 {
		return afterLong(body, i)
	}
	if n := strings.IndexByte(body[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(body)
}

// afterString returns the position after the string at i. A line break ends it: the parser reports that the string is
// not closed. Escapes are skipped, not interpreted.
func afterString(body string, i int) int {
	quote := body[i]
	for i++; i < len(body) && body[i] != quote; i++ {
		switch body[i] {
		case '\n':
			return i
		// The next byte is part of the string, also a quote or a line break.
		case '\\':
			i++
		}
	}
	return min(i+1, len(body))
}
