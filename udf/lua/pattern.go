package lua

import (
	"strings"

	"cqld/udf/value"
)

// Patterns of Lua, as string.find, match, gmatch and gsub use them:
//
//	.  %a %d %l %s %u %w %x %p %c   classes; an upper-case letter is the complement
//	[set] [^set]                    sets, with ranges and classes
//	* + - ?                         repetitions of one class: most, at least one, least, at most one
//	(…) ()                          captures, and captures of a position
//	%1 … %9                         the text of a capture before, again
//	%bxy                            a balanced part between x and y
//	%f[set]                         the place between a character outside the set and one inside
//	^ $                             the beginning and the end

// matcher matches a pattern of Lua. Each step is counted: patterns can backtrack exponentially. It is recursive, and
// the end of the pattern is the success. Its time is bounded by the steps of the call, and its stack by
// patternDepthMax.
type matcher struct {
	fr       *frame
	src, pat string
	captures []span
	depth    int
}

// span is a capture; length is open or position for those that are not text. Positions are in bytes, from 0.
type span struct{ start, length int }

// Values of span.length that are not lengths.
const (
	spanOpen     = -1
	spanPosition = -2

	capturesMax = 32
	// setPerStep is the number of characters of a set that are compared in about the time of one operation.
	setPerStep = 8
	// patternDepthMax bounds the recursion of a match.
	patternDepthMax = 200
)

// match returns the end of the match of the pattern from p on at s, or -1. Loops replace the recursion where nothing
// can be tried again. It returns the end of the whole match, since it is called for all that follows.
func (m *matcher) match(s, p int) int {
	m.depth++
	defer func() { m.depth-- }()
	if m.depth > patternDepthMax {
		value.Failf("pattern too complex")
	}
	for p < len(m.pat) {
		m.fr.m.Step()
		switch m.pat[p] {
		case '(':
			if p+1 < len(m.pat) && m.pat[p+1] == ')' {
				return m.capture(s, p+2, spanPosition)
			}
			return m.capture(s, p+1, spanOpen)
		case ')':
			return m.closeCapture(s, p+1)
		case '$':
			if p+1 == len(m.pat) {
				if s == len(m.src) {
					return s
				}
				return -1
			}
		case '%':
			if end, next, ok := m.escape(s, p+1); ok {
				if end < 0 {
					return -1
				}
				s, p = end, next
				continue
			}
		}
		end := m.classEnd(p)
		var repeat byte
		if end < len(m.pat) {
			repeat = m.pat[end]
		}
		switch repeat {
		case '?':
			if m.single(s, p, end) {
				if r := m.match(s+1, end+1); r >= 0 {
					return r
				}
			}
			p = end + 1
		case '*':
			return m.longest(s, p, end, 0)
		case '+':
			return m.longest(s, p, end, 1)
		case '-':
			return m.shortest(s, p, end)
		default:
			if !m.single(s, p, end) {
				return -1
			}
			s, p = s+1, end
		}
	}
	return s
}

// capture begins a capture and matches the rest. It is removed if the rest does not match, so that other attempts do
// not see it. length is spanOpen or spanPosition.
func (m *matcher) capture(s, p, length int) int {
	if len(m.captures) >= capturesMax {
		value.Failf("too many captures")
	}
	m.captures = append(m.captures, span{s, length})
	n := len(m.captures)
	r := m.match(s, p)
	if r < 0 {
		m.captures = m.captures[:n-1]
	}
	return r
}

// closeCapture ends the innermost open capture and matches the rest. If the rest does not match, the capture is open
// again for another attempt.
func (m *matcher) closeCapture(s, p int) int {
	for i := len(m.captures) - 1; i >= 0; i-- {
		if m.captures[i].length == spanOpen {
			m.captures[i].length = s - m.captures[i].start
			r := m.match(s, p)
			if r < 0 {
				m.captures[i].length = spanOpen
			}
			return r
		}
	}
	value.Failf("invalid pattern capture")
	return -1
}

// escape matches %b, %f and %1 at s; p is the position after the %. It returns the end of the match, or -1, and the
// position of the rest of the pattern. ok is false for classes, which may be repeated. %b and %f cannot be repeated.
func (m *matcher) escape(s, p int) (end, next int, ok bool) {
	if p >= len(m.pat) {
		return 0, 0, false
	}
	switch c := m.pat[p]; {
	case c == 'b':
		return m.balanced(s, p+1), p + 3, true
	case c == 'f':
		end, next = m.frontier(s, p+1)
		return end, next, true
	case '0' <= c && c <= '9':
		return m.again(s, int(c-'1')), p + 1, true
	}
	return 0, 0, false
}

// frontier matches %f[set], which begins at p, at s. Before the first character and after the last one is the character
// 0, as in Lua. The set is searched twice, which Work counts.
func (m *matcher) frontier(s, p int) (end, next int) {
	if p >= len(m.pat) || m.pat[p] != '[' {
		value.Failf("missing '[' after '%%f' in pattern")
	}
	next = m.classEnd(p)
	m.fr.m.Work(2 * int64(next-p) / setPerStep)
	set := m.pat[p+1 : next-1]
	before, after := byte(0), byte(0)
	if s > 0 {
		before = m.src[s-1]
	}
	if s < len(m.src) {
		after = m.src[s]
	}
	if inSet(before, set) || !inSet(after, set) {
		return -1, next
	}
	return s, next
}

// again matches the text of capture n, which has ended, at s and returns its end, or -1. n counts from 0.
func (m *matcher) again(s, n int) int {
	if n < 0 || n >= len(m.captures) || m.captures[n].length == spanOpen {
		value.Failf("invalid capture index %%%d in pattern", n+1)
	}
	c := m.captures[n]
	if c.length == spanPosition {
		return -1 // no text is a position, as in Lua
	}
	m.fr.m.Work(int64(c.length) / setPerStep)
	if !strings.HasPrefix(m.src[s:], m.src[c.start:c.start+c.length]) {
		return -1
	}
	return s + c.length
}

// balanced matches %bxy at s and returns its end, or -1. Nested pairs are counted, not matched recursively.
func (m *matcher) balanced(s, p int) int {
	if p+1 >= len(m.pat) {
		value.Failf("malformed pattern (missing arguments to '%%b')")
	}
	if s >= len(m.src) || m.src[s] != m.pat[p] {
		return -1
	}
	depth := 1
	for i := s + 1; i < len(m.src); i++ {
		m.fr.m.Step()
		switch m.src[i] {
		// Tested first: with equal delimiters, the next one ends the match.
		case m.pat[p+1]:
			if depth--; depth == 0 {
				return i + 1
			}
		case m.pat[p]:
			depth++
		}
	}
	return -1
}

// longest matches a class as often as possible, and then less often until the rest matches. It recurses once for each
// attempt, not for each character.
func (m *matcher) longest(s, p, end, least int) int {
	n := 0
	for m.single(s+n, p, end) {
		m.fr.m.Step()
		n++
	}
	for ; n >= least; n-- {
		if r := m.match(s+n, end+1); r >= 0 {
			return r
		}
	}
	return -1
}

// shortest matches a class as seldom as possible (-). It tries the rest first, and takes one more character each time
// that the rest does not match.
func (m *matcher) shortest(s, p, end int) int {
	for {
		if r := m.match(s, end+1); r >= 0 {
			return r
		}
		if !m.single(s, p, end) {
			return -1
		}
		s++
	}
}

// classEnd returns the end of the character class at p. It fails for a class that does not end. The class itself is one
// character, an escape of two, or a set in brackets.
func (m *matcher) classEnd(p int) int {
	c, start := m.pat[p], p
	p++
	if c == '%' {
		if p >= len(m.pat) {
			value.Failf("malformed pattern (ends with '%%')")
		}
		return p + 1
	}
	if c != '[' {
		return p
	}
	if p < len(m.pat) && m.pat[p] == '^' {
		p++
	}
	for first := true; ; first = false {
		if p >= len(m.pat) {
			value.Failf("malformed pattern (missing ']')")
		}
		// A bracket that comes first is a member of the set.
		if m.pat[p] == ']' && !first {
			m.fr.m.Work(int64(p-start) / setPerStep)
			return p + 1
		}
		if m.pat[p] == '%' {
			p++
		}
		p++
	}
}

// single reports whether the character at s is in the class between p and end. It is false at the end of the subject.
// It does not move: the caller adds 1.
func (m *matcher) single(s, p, end int) bool {
	if s >= len(m.src) {
		return false
	}
	c := m.src[s]
	switch m.pat[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pat[p+1])
	case '[':
		m.fr.m.Work(int64(end-p) / setPerStep)
		return inSet(c, m.pat[p+1:end-1])
	}
	return m.pat[p] == c
}

// inSet reports whether c is in the set between brackets. A set has ranges (a-z), classes (%d) and single characters. A
// hyphen at either end is itself.
func inSet(c byte, set string) bool {
	negated := strings.HasPrefix(set, "^")
	if negated {
		set = set[1:]
	}
	for i := 0; i < len(set); i++ {
		switch {
		case set[i] == '%' && i+1 < len(set):
			i++
			if inClass(c, set[i]) {
				return !negated
			}
		case i+2 < len(set) && set[i+1] == '-':
			if set[i] <= c && c <= set[i+2] {
				return !negated
			}
			i += 2
		case set[i] == c:
			return !negated
		}
	}
	return negated
}

// inClass reports whether c is in the class that a letter after % names; other characters name themselves. Classes are
// ASCII, as in the C locale.
func inClass(c, class byte) bool {
	lower, upper := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z'
	digit := c >= '0' && c <= '9'
	var in bool
	switch class | 0x20 {
	case 'a':
		in = lower || upper
	case 'd':
		in = digit
	case 'l':
		in = lower
	case 's':
		in = c == ' ' || c >= '\t' && c <= '\r'
	case 'u':
		in = upper
	case 'w':
		in = lower || upper || digit
	case 'x':
		in = digit || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
	case 'p':
		in = c > ' ' && c < 127 && !lower && !upper && !digit
	case 'c':
		in = c < ' ' || c == 127
	default:
		return class == c
	}
	// An upper-case letter is the complement of the class.
	if class >= 'A' && class <= 'Z' {
		return !in
	}
	return in
}

// result returns the i-th capture, or the whole match if there are no captures. A capture of a position is an integer,
// from 1. An open capture at the end of the pattern is an error.
func (m *matcher) result(i, start, end int) value.Value {
	if i >= len(m.captures) {
		if i > 0 {
			value.Failf("invalid capture index %%%d", i+1)
		}
		m.fr.m.Alloc(int64(end - start))
		return m.src[start:end]
	}
	c := m.captures[i]
	switch c.length {
	case spanPosition:
		return int64(c.start + 1)
	case spanOpen:
		value.Failf("unfinished capture")
	}
	m.fr.m.Alloc(int64(c.length))
	return m.src[c.start : c.start+c.length]
}

// results returns all captures, or the whole match. Each is a value on the list of a call.
func (m *matcher) results(start, end int) []value.Value {
	var out []value.Value
	for i := range max(len(m.captures), 1) {
		out = append(out, m.result(i, start, end))
	}
	return out
}

// search returns the first match from s on; start is -1 if there is none. A match of nothing can be at the end. The
// captures of failed attempts are removed. An anchored pattern is tried at s only.
func (m *matcher) search(s int) (start, end int) {
	anchored := strings.HasPrefix(m.pat, "^")
	p := 0
	if anchored {
		p = 1
	}
	for ; s <= len(m.src); s++ {
		m.captures = m.captures[:0]
		if end = m.match(s, p); end >= 0 {
			return s, end
		}
		if anchored {
			break
		}
	}
	return -1, -1
}

// newMatcher returns the matcher of find and similar functions, with the position in bytes from 0. It is not ok for a
// position after the end. a contains the arguments subject, pattern and position.
func newMatcher(fr *frame, a args) (m *matcher, start int, ok bool) {
	m = &matcher{fr: fr, src: a.string(0), pat: a.string(1)}
	at := a.integer(2, 1)
	if at < 0 {
		at = max(int64(len(m.src))+at+1, 1)
	}
	at = max(at, 1)
	return m, int(min(at, int64(len(m.src))+2) - 1), at <= int64(len(m.src))+1
}

// find implements string.find(s, pattern, init, plain). It returns the positions of the first and the last byte, and
// the captures.
func find(fr *frame, a args) []value.Value {
	m, at, ok := newMatcher(fr, a)
	if !ok {
		return one(nil)
	}
	fr.m.Work(int64(len(m.pat)) / 8)
	// A pattern without special characters is searched as plain text, which is much faster.
	if truth(a.at(3)) || !strings.ContainsAny(m.pat, "^$*+?.([%-") {
		fr.m.Work(int64(len(m.src)) / 8)
		if i := strings.Index(m.src[at:], m.pat); i >= 0 {
			return []value.Value{int64(at + i + 1), int64(at + i + len(m.pat))}
		}
		return one(nil)
	}
	start, end := m.search(at)
	if start < 0 {
		return one(nil)
	}
	out := []value.Value{int64(start + 1), int64(end)}
	if len(m.captures) > 0 {
		out = append(out, m.results(start, end)...)
	}
	return out
}

// matchPattern implements string.match(s, pattern, init). Without captures it returns the whole match.
func matchPattern(fr *frame, a args) []value.Value {
	m, at, ok := newMatcher(fr, a)
	if !ok {
		return one(nil)
	}
	start, end := m.search(at)
	if start < 0 {
		return one(nil)
	}
	return m.results(start, end)
}

// gmatch implements string.gmatch. The iterator keeps the position.
func gmatch(fr *frame, a args) []value.Value {
	m, at, _ := newMatcher(fr, args{a.name, []value.Value{a.at(0), a.at(1)}, fr.m})
	return one(&builtin{"gmatch", func(*frame, []value.Value) []value.Value {
		if at > len(m.src) {
			return nil
		}
		start, end := m.search(at)
		if start < 0 {
			at = len(m.src) + 1
			return nil
		}
		// A match of nothing must advance, or it would repeat forever.
		if at = end; end == start {
			at++
		}
		return m.results(start, end)
	}})
}

// gsub implements string.gsub(s, pattern, replacement, n). The second result is the number of replacements.
func gsub(fr *frame, a args) []value.Value {
	m, _, _ := newMatcher(fr, args{a.name, []value.Value{a.at(0), a.at(1)}, fr.m})
	limit := a.integer(3, int64(len(m.src)+1))
	anchored := strings.HasPrefix(m.pat, "^")
	p := 0
	if anchored {
		p = 1
	}
	var out strings.Builder
	n, s := int64(0), 0
	for n < limit {
		fr.m.Step()
		m.captures = m.captures[:0]
		end := m.match(s, p)
		if end >= 0 {
			n++
			text := m.replacement(a, s, end)
			fr.m.Alloc(int64(len(text)))
			out.WriteString(text)
		}
		switch {
		case end > s:
			s = end
		case s < len(m.src):
			fr.m.Alloc(1)
			out.WriteByte(m.src[s])
			s++
		default:
			s++
		}
		if s > len(m.src) || anchored {
			break
		}
	}
	if s < len(m.src) {
		fr.m.Alloc(int64(len(m.src) - s))
		out.WriteString(m.src[s:])
	}
	return []value.Value{out.String(), n}
}

// replacement returns what replaces a match: by the third argument of gsub, which is a string, a table or a function.
// An error of the function ends gsub.
func (m *matcher) replacement(a args, start, end int) string {
	var v value.Value
	switch by := a.at(2).(type) {
	case *value.Table:
		v = by.Get(m.fr.m, m.result(0, start, end))
	case *closure, *builtin:
		v = at(m.fr.call(by, m.results(start, end), 0), 0)
	default:
		return m.expand(a.string(2), start, end)
	}
	// nil and false keep the match.
	if !truth(v) {
		return m.src[start:end]
	}
	s, ok := stringOf(m.fr.m, v)
	if !ok {
		value.Failf("invalid replacement value (a %s)", typeName(v))
	}
	return s
}

// expand replaces %0 … %9 in a replacement. %0 is the whole match, and %1 too if there are no captures. Another
// character after % is an error, as in Lua 5.2 and later.
func (m *matcher) expand(by string, start, end int) string {
	var out strings.Builder
	for i := 0; i < len(by); i++ {
		m.fr.m.Alloc(1)
		if by[i] != '%' {
			out.WriteByte(by[i])
			continue
		}
		i++
		switch {
		case i >= len(by):
			value.Failf("invalid use of '%%' in replacement string")
		case by[i] == '%':
			out.WriteByte('%')
		case by[i] == '0':
			m.fr.m.Alloc(int64(end - start))
			out.WriteString(m.src[start:end])
		case by[i] >= '1' && by[i] <= '9':
			s, _ := stringOf(m.fr.m, m.result(int(by[i]-'1'), start, end))
			out.WriteString(s)
		default:
			value.Failf("invalid use of '%%' in replacement string")
		}
	}
	return out.String()
}
