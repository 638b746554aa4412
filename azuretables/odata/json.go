package odata

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// plainLen returns the length of the prefix of s that needs no escapes in a JSON string: no " or \, no control
// characters, only ASCII. It examines eight bytes at a time. The technique is SWAR: one arithmetic operation on eight
// bytes.
func plainLen(s []byte) int {
	i := 0
	// Four words at a time, as long as all their bytes are plain.
	for ; i+32 <= len(s); i += 32 {
		b := s[i : i+32 : i+32]
		plain := plainBytes(binary.LittleEndian.Uint64(b)) & plainBytes(binary.LittleEndian.Uint64(b[8:])) &
			plainBytes(binary.LittleEndian.Uint64(b[16:])) & plainBytes(binary.LittleEndian.Uint64(b[24:]))
		// The block contains a byte that is not plain; the next loop finds it.
		if plain&highs != highs {
			break
		}
	}
	for ; i+8 <= len(s); i += 8 {
		x := binary.LittleEndian.Uint64(s[i:])
		quote := x ^ ones*'"'
		slash := x ^ ones*'\\'
		// A byte's high bit is set where the byte is zero (or was borrowed from, but then a lower byte is zero, too).
		special := (quote-ones)&^quote | (slash-ones)&^slash | (x-ones*0x20)&^x | x
		// Little-endian: the lowest bits are the first byte.
		if special &= highs; special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	// Fewer than eight bytes remain.
	for ; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// longText is the length from which allPlain is faster than plainLen.
const longText = 64

// allPlain reports whether all of s is plain. Finding the first byte that is not may be faster. It reads the text three
// times, each time faster than one loop could.
func allPlain(s []byte) bool {
	// bytes.IndexByte uses vector instructions.
	if bytes.IndexByte(s, '"') >= 0 || bytes.IndexByte(s, '\\') >= 0 {
		return false
	}
	// plain collects the bits of all bytes, which need no test in between. Non-ASCII bytes are collected in other.
	plain, other := uint64(highs), uint64(0)
	for len(s) >= 32 {
		x, y := binary.LittleEndian.Uint64(s), binary.LittleEndian.Uint64(s[8:])
		z, w := binary.LittleEndian.Uint64(s[16:]), binary.LittleEndian.Uint64(s[24:])
		plain &= (x + ones*0x60) & (y + ones*0x60) & (z + ones*0x60) & (w + ones*0x60) // as in plainBytes
		other |= x | y | z | w
		s = s[32:]
	}
	// A carry from a non-ASCII byte may set a bit wrongly, but then other has a bit as well.
	return plain&^other == highs && plainLen(s) == len(s)
}

// ones has each byte 1, highs the highest bit of each byte. Multiplying ones by a byte repeats it.
const ones, highs = 0x0101010101010101, 0x8080808080808080

// plainBytes sets the high bits of plain bytes in x. All eight are set only if all bytes are plain; a byte with its own
// high bit set may carry into the next one. The additions carry nothing for ASCII, since 0x7F + 0x7F fits a byte. It is
// the complement of the test in plainLen, without its exact position.
func plainBytes(x uint64) uint64 {
	quote := x ^ ones*'"'
	slash := x ^ ones*'\\'
	return (quote + ones*0x7F) & (slash + ones*0x7F) & (x + ones*0x60) &^ x
}

// cursor reads JSON from a body and modifies it: it unescapes strings in place. The first error sets bad permanently.
// After an error, positions no longer matter: callers test bad and return. It is part of a decoder, and is not used
// alone.
type cursor struct {
	body []byte
	pos  int
	// Position in body of its first byte, after the quotation mark.
	start int // of the string read last
	bad   bool
}

// space skips white space. A byte order mark is not white space.
func (c *cursor) space() {
	for c.pos < len(c.body) {
		switch c.body[c.pos] {
		// The white space of RFC 8259 §2; no other characters count.
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return
		}
	}
}

// peek returns the next byte after white space, or zero at the end. A zero byte in the body is returned as zero, too;
// object distinguishes them. It does not consume the byte.
func (c *cursor) peek() byte {
	if c.pos < len(c.body) && c.body[c.pos] > ' ' {
		return c.body[c.pos]
	}
	// White space is rare in requests, so it is handled out of line.
	return c.peekBehindSpace()
}

// peekBehindSpace skips white space and returns the next byte, or zero. It is not inlined, so that peek is.
func (c *cursor) peekBehindSpace() byte {
	c.space()
	if c.pos == len(c.body) {
		return 0
	}
	return c.body[c.pos]
}

// take skips the byte b if it is the next one after white space. It does not skip anything but white space otherwise.
// The caller decides whether the absence of b is an error.
func (c *cursor) take(b byte) bool {
	if c.peek() != b {
		return false
	}
	c.pos++
	return true
}

// fail marks the input as malformed. The caller stops at its next test of bad.
func (c *cursor) fail() { c.bad = true }

// text reads a string. The result refers to body. It has no escapes any longer, and is valid UTF-8. Its capacity
// extends into body: the caller must not append to it.
func (c *cursor) text() []byte {
	if !c.take('"') {
		c.fail()
		return nil
	}
	start := c.pos
	c.start = start
	// Most strings are plain up to their end, and stay where they are.
	c.pos += plainLen(c.body[c.pos:])
	if c.pos < len(c.body) && c.body[c.pos] == '"' {
		c.pos++
		return c.body[start : c.pos-1]
	}
	return c.hardText(start)
}

// hardText continues to read a string that contains escapes or non-ASCII characters. It writes at end, which never
// exceeds pos, because an escape is longer than its character. start is the beginning of the string.
func (c *cursor) hardText(start int) []byte {
	end := c.pos
	for c.pos < len(c.body) {
		// Each case makes progress, or sets bad.
		switch b := c.body[c.pos]; {
		case b == '"':
			c.pos++
			return c.body[start:end]
		case b == '\\':
			end = c.escape(end)
		case b < 0x20:
			// JSON does not allow control characters in strings.
			c.fail()
		case b >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(c.body[c.pos:])
			// A replacement character in the input has n == 3 and is valid.
			if r == utf8.RuneError && n == 1 {
				c.fail()
			}
			end += copy(c.body[end:], c.body[c.pos:c.pos+n])
			c.pos += n
		default:
			n := plainLen(c.body[c.pos:])
			end += copy(c.body[end:], c.body[c.pos:c.pos+n])
			c.pos += n
		}
		if c.bad {
			return nil
		}
	}
	c.fail()
	return nil
}

// escape reads the escape at pos, writes its character at end, and returns the position after it. The character is not
// longer than its escape, so unread input is not overwritten. pos is at the backslash.
func (c *cursor) escape(end int) int {
	if c.pos+1 >= len(c.body) {
		c.fail()
		return end
	}
	// Six bytes \uxxxx become three at most; a pair, twelve bytes, becomes four.
	b := c.body[c.pos+1]
	c.pos += 2
	switch b {
	case '"', '\\', '/':
	case 'b':
		b = '\b'
	case 'f':
		b = '\f'
	case 'n':
		b = '\n'
	case 'r':
		b = '\r'
	case 't':
		b = '\t'
	case 'u':
		return end + utf8.EncodeRune(c.body[end:], c.unicode())
	// bad is set; the caller ignores the result.
	default:
		c.fail()
	}
	c.body[end] = b
	return end + 1
}

// unicode reads what follows \u, and the second half of a surrogate pair. Half a pair alone is invalid: it has no UTF-8
// form. The position is after \u. It returns 0 after an error.
func (c *cursor) unicode() rune {
	r := c.hex4()
	if !utf16.IsSurrogate(r) {
		return r
	}
	if c.pos+1 >= len(c.body) || c.body[c.pos] != '\\' || c.body[c.pos+1] != 'u' {
		c.fail()
		return 0
	}
	c.pos += 2
	r = utf16.DecodeRune(r, c.hex4())
	// The second half is no low surrogate, or the first is no high one.
	if r == utf8.RuneError {
		c.fail()
	}
	return r
}

// hex4 reads four hexadecimal digits. pos moves only if all four are digits.
func (c *cursor) hex4() rune {
	// A signed or shorter number is not accepted.
	if c.pos+4 > len(c.body) {
		c.fail()
		return 0
	}
	var r rune
	for _, b := range c.body[c.pos : c.pos+4] {
		d, ok := hexDigit(b)
		if !ok {
			c.fail()
			return 0
		}
		r = r<<4 | rune(d)
	}
	c.pos += 4
	return r
}

// hexDigit returns the value of a hexadecimal digit in either case. Letters are accepted in both cases everywhere.
func hexDigit(b byte) (byte, bool) {
	switch {
	case b >= '0' && b <= '9':
		return b - '0', true
	case b >= 'a' && b <= 'f':
		return b - 'a' + 10, true
	case b >= 'A' && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}

// number reads a number without conversion and reports whether it is an integer. The text is a slice of body. White
// space before it was skipped by peek.
func (c *cursor) number() (text []byte, integer bool) {
	start := c.pos
	c.pos += scanNumber(c.body[c.pos:])
	text = c.body[start:c.pos]
	integer = true
	for _, b := range text {
		if b == '.' || b == 'e' || b == 'E' {
			integer = false
		}
	}
	// scanNumber returned 0.
	if len(text) == 0 {
		c.fail()
	}
	return text, integer
}

// scanNumber returns the length of the JSON number at the beginning of s, or zero if there is none. A leading zero is
// allowed only alone or before the point, and a plus sign is not (RFC 8259 §6). It accepts numbers of any length; the
// parsers bound it.
func scanNumber[T ~string | ~[]byte](s T) int {
	digitsFrom := func(i int) int {
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i
	}
	i := 0
	if i < len(s) && s[i] == '-' {
		i++
	}
	n := digitsFrom(i)
	// No digits, or a leading zero.
	if n == i || s[i] == '0' && n > i+1 {
		return 0
	}
	if n < len(s) && s[n] == '.' {
		i = n + 1
		if n = digitsFrom(i); n == i {
			return 0
		}
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		i = n + 1
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if n = digitsFrom(i); n == i {
			return 0
		}
	}
	return n
}

// word skips a literal such as true. What follows need not be a delimiter: the caller requires a comma or a bracket.
// trueish is refused by the caller.
func (c *cursor) word(w string) {
	if len(c.body)-c.pos < len(w) || string(c.body[c.pos:c.pos+len(w)]) != w {
		c.fail()
		return
	}
	c.pos += len(w)
}

// depthSkipped is the maximum depth of a skipped value: annotations of the service have at most one level. Recursion is
// bounded by it.
const depthSkipped = 16

// skip skips any value. Names and values within it are only checked for syntax. Strings in it are unescaped in place,
// which does no harm.
func (c *cursor) skip(depth int) {
	if depth > depthSkipped {
		c.fail()
	}
	// The caller may also have set bad: nothing is read after an error.
	if c.bad {
		return
	}
	switch b := c.peek(); b {
	case '{', '[':
		c.skipNested(b, depth)
	case '"':
		c.text()
	case 't':
		c.word("true")
	case 'f':
		c.word("false")
	case 'n':
		c.word("null")
	default:
		c.number()
	}
}

// skipNested skips an object or an array, which begins with open. pos is at open.
func (c *cursor) skipNested(open byte, depth int) {
	c.pos++
	end := open + 2 // '{' and '}', '[' and ']' differ by two
	if c.take(end) {
		return
	}
	for !c.bad {
		// A member of an object has a name.
		if open == '{' {
			c.text()
			if !c.take(':') {
				c.fail()
			}
		}
		c.skip(depth + 1)
		if c.take(end) {
			return
		}
		// A comma must be followed by another element: skip fails at a closing bracket.
		if !c.take(',') {
			c.fail()
		}
	}
}
