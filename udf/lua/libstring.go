package lua

import (
	"fmt"
	"strconv"
	"strings"

	"cqld/udf/value"
)

// stringFunctions returns the functions of string. Strings are bytes; upper and lower change ASCII letters only. Every
// function counts what it allocates before it does so. Numbers are accepted in place of strings. Positions are bytes as
// well, so they may fall within a character of UTF-8.
func stringFunctions() map[string]native {
	mapped := func(f func(byte) byte) native {
		return func(fr *frame, a args) []value.Value {
			// Numbers are converted, as in all functions of string.
			s := a.string(0)
			fr.m.Alloc(int64(len(s)))
			// No locale: the result is the same on every node.
			out := make([]byte, len(s))
			for i := range len(s) {
				out[i] = f(s[i])
			}
			return one(string(out))
		}
	}
	return map[string]native{
		"len": func(_ *frame, a args) []value.Value { return one(int64(len(a.string(0)))) },
		"lower": mapped(func(c byte) byte {
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			return c
		}),
		"upper": mapped(func(c byte) byte {
			if c >= 'a' && c <= 'z' {
				c -= 'a' - 'A'
			}
			return c
		}),
		"sub": func(fr *frame, a args) []value.Value {
			s := a.string(0)
			from, to := bounds(len(s), a.integer(1, 1), a.integer(2, -1))
			fr.m.Alloc(int64(to - from))
			return one(s[from:to])
		},
		"rep":     repeatString,
		"reverse": reverse,
		"byte": func(fr *frame, a args) []value.Value {
			s := a.string(0)
			// Without an end, byte returns one value.
			first := a.integer(1, 1)
			from, to := bounds(len(s), first, a.integer(2, first))
			// Each byte becomes a value, which takes 16 bytes.
			fr.m.Alloc(int64(16 * (to - from)))
			var out []value.Value
			for i := from; i < to; i++ {
				out = append(out, int64(s[i]))
			}
			return out
		},
		"char": func(fr *frame, a args) []value.Value {
			fr.m.Alloc(int64(len(a.values)))
			out := make([]byte, len(a.values))
			for i := range a.values {
				n := a.integer(i)
				// A byte, not a character.
				if n < 0 || n > 255 {
					a.bad(i, "value out of range")
				}
				out[i] = byte(n)
			}
			return one(string(out))
		},
		"format": format,
		"find":   find,
		"match":  matchPattern,
		"gmatch": gmatch,
		"gsub":   gsub,
	}
}

// bounds converts positions of Lua, which begin with 1 and are negative from the end, to positions of a slice.
// Positions out of range are cut, and an empty range is 0, 0. The result is a half-open range for slicing.
func bounds(n int, from, to int64) (int, int) {
	size := int64(n)
	if from < 0 {
		from = max(size+from+1, 1)
	}
	// -1 is the last byte.
	if to < 0 {
		to = size + to + 1
	}
	// Positions count from 1, and to is inclusive.
	from, to = max(from, 1), min(to, size)
	if from > to {
		return 0, 0
	}
	return int(from - 1), int(to)
}

// repeatString implements string.rep(s, n, separator). A size of a terabyte stands for every larger one: both exceed
// the bound.
func repeatString(fr *frame, a args) []value.Value {
	s, n, separator := a.string(0), a.integer(1), ""
	if a.at(2) != nil {
		separator = a.string(2)
	}
	// A separator follows each copy here; the last one is cut below.
	size := int64(len(s) + len(separator))
	if n <= 0 || size == 0 {
		return one("")
	}
	if n > 1<<40/size {
		n = 1 << 40 / size // more than any limit
	}
	// Counted before it is allocated. The product cannot overflow, because n is bounded above.
	fr.m.Alloc(n * size)
	out := strings.Repeat(s+separator, int(n))
	// No separator follows the last one.
	return one(out[:len(out)-len(separator)])
}

// reverse implements string.reverse. Its cost is its length.
func reverse(fr *frame, a args) []value.Value {
	s := a.string(0)
	fr.m.Alloc(int64(len(s)))
	out := make([]byte, len(s))
	for i := range len(s) {
		// By bytes: the result of a text that is not ASCII is no valid text.
		out[len(s)-1-i] = s[i]
	}
	return one(string(out))
}

// format implements string.format with %d %i %u %c %x %X %o %e %E %f %g %G %s %q %%. Width and precision are bounded,
// so a conversion cannot make a text of gigabytes. Conversions of a missing or a wrong argument fail as in Lua.
func format(fr *frame, a args) []value.Value {
	in := a.string(0)
	var out strings.Builder
	next := 1
	for i := 0; i < len(in); i++ {
		// Each byte of the format counts.
		fr.m.Alloc(1)
		if in[i] != '%' {
			out.WriteByte(in[i])
			continue
		}
		// A conversion: %, flags, width and precision, and a letter.
		start := i
		i++
		for i < len(in) && strings.IndexByte("-+ #0", in[i]) >= 0 {
			i++
		}
		// Width and precision: at most two digits each, with a point.
		digits := i
		for i < len(in) && (in[i] >= '0' && in[i] <= '9' || in[i] == '.') {
			i++
		}
		// Two digits, a point, and two digits.
		if i >= len(in) || i-digits > 5 {
			value.Failf("invalid conversion '%s' to 'format'", in[start:min(i, len(in))])
		}
		if !plainWidth(in[digits:i]) {
			value.Failf("invalid conversion '%s' to 'format'", in[start:i+1])
		}
		// %% takes no argument.
		if in[i] == '%' {
			out.WriteByte('%')
			continue
		}
		text := formatOne(in[start:i], in[i], a, next)
		fr.m.Alloc(int64(len(text)))
		out.WriteString(text)
		// Each conversion takes the next argument; a.at(0) is the format.
		next++
	}
	return one(out.String())
}

// plainWidth reports whether the width and the precision have at most two digits each. Go's fmt would accept larger
// ones and pad without a bound.
func plainWidth(s string) bool {
	width, precision, _ := strings.Cut(s, ".")
	return len(width) <= 2 && len(precision) <= 2 && !strings.Contains(precision, ".")
}

// formatOne formats an argument. flags begins with % and has been checked, so Sprintf interprets nothing else. The
// result is bounded by width and precision, of 99 each, except for %s and %q.
func formatOne(flags string, verb byte, a args, i int) string {
	if i >= len(a.values) {
		a.bad(i, "no value")
	}
	switch verb {
	// Go has one verb for the three of C.
	case 'd', 'i', 'u':
		return fmt.Sprintf(flags+"d", a.integer(i))
	case 'c':
		return string([]byte{byte(a.integer(i))})
	case 'x', 'X', 'o':
		// C formats these as unsigned numbers.
		return fmt.Sprintf(flags+string(verb), uint64(a.integer(i)))
	// Exact numbers are converted to floats, as in arithmetic with a float.
	case 'e', 'E', 'f', 'F', 'g', 'G':
		if !strings.Contains(flags, ".") {
			flags += ".6" // the default of C
		}
		return fmt.Sprintf(flags+string(verb), value.ToFloat(a.m, a.number(i)))
	case 's':
		return formatString(flags, toText(a.m, a.at(i)))
	case 'q':
		// Not the text of Lua in every detail: Go escapes more characters.
		s := a.string(i)
		// A byte becomes up to four, as \xff.
		a.m.Alloc(int64(4 * len(s)))
		return strconv.Quote(s)
	}
	value.Failf("invalid conversion '%s%c' to 'format'", flags, verb)
	return ""
}

// formatString implements %s. Width and precision count bytes, as in Lua; in Go's fmt, they count characters. flags is
// the conversion without its letter. A string that is longer than the width is not copied.
func formatString(flags, s string) string {
	digits := strings.TrimLeft(flags, "%-+ #0")
	// Absent numbers are 0, as in C: %.s is an empty text.
	w, p, cut := strings.Cut(digits, ".")
	width, _ := strconv.Atoi(w)
	precision, _ := strconv.Atoi(p)
	if cut {
		s = s[:min(precision, len(s))]
	}
	padding := strings.Repeat(" ", max(width-len(s), 0))
	if strings.Contains(flags, "-") {
		return s + padding
	}
	return padding + s
}
